"""B30 of a table of positions that is made, and that forward never adds; not of one that another way adds."""

import pytest

from reference_tests.kit.learners.checked import check_text

ENCODER = """
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=5000):
        super().__init__()
        pe, position = torch.zeros(max_len, d_model), torch.arange(max_len).unsqueeze(1)
        angles = position * torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe[:, 0::2], pe[:, 1::2] = angles.sin(), angles.cos()
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[:x.size(1)]


class Encoder(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.embedding, self.pos_encoding = nn.Embedding(vocab_size, d_model), PositionalEncoding(d_model)
        layers = [nn.TransformerEncoderLayer(d_model, num_heads, d_ff, batch_first=True) for _ in range(num_layers)]
        self.layers = nn.ModuleList(layers)

    def forward(self, ids, src_key_padding_mask=None):
        x = ADDED
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=src_key_padding_mask)
        return x
"""
EMBEDDED = "self.embedding(ids) * math.sqrt(self.embedding.embedding_dim)"


@pytest.mark.parametrize("added, ids", [(f"self.pos_encoding({EMBEDDED})", []), (EMBEDDED, ["B30"])])
def test_positions_that_are_made_are_to_be_added(added, ids, tmp_path):
    result = check_text(ENCODER.replace("ADDED", added), tmp_path)["Encoder"]
    assert [found.id for found in result.mistakes if found.severity == "mistake"] == ids, result
