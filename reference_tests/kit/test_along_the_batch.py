"""P4 of what attends along its first dimension, and says that this is the batch."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.mistakes.embedding import ATTENTION_ALONG_IT
from scratch_transformer.kit.report.finding import FINE

STACK = """
class Encoder(nn.Module):
    def __init__(self, d_model, nhead, d_ff, num_layers):
        super().__init__()
        layers = [nn.TransformerEncoderLayer(d_model, nhead, d_ff, FIRST) for _ in range(num_layers)]
        self.layers = nn.ModuleList(layers)

    def forward(self, x):
        SAID
        x = x.transpose(0, 1)
        for layer in self.layers:
            x = layer(x)
        return x.transpose(0, 1)
"""
BATCH_FIRST = "batch_first=True"
ATTENTION = """
class SelfAttention(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.attn = nn.MultiheadAttention(embed_dim, num_heads, FIRST)

    def forward(self, x):
        SAID
        return self.attn(x, x, x)[0]
"""


@pytest.mark.parametrize(
    "text, first, said, ids",
    [
        (STACK, "", "# x: (batch, seq, d_model)", []),
        (STACK, BATCH_FIRST, "# x: (batch, seq, d_model)", ["P4"]),
        (STACK, BATCH_FIRST, "# x: (seq, batch, d_model)", []),
        (STACK, BATCH_FIRST, "pass", []),
        (STACK, BATCH_FIRST, "B, T, C = x.shape", ["P4"]),
        (STACK, BATCH_FIRST, "T, B, C = x.shape", []),
        (ATTENTION, "", "batch_size, seq_len, _ = x.size()", ["P4"]),
        (ATTENTION, BATCH_FIRST, "batch_size, seq_len, _ = x.size()", []),
        (ATTENTION, "", "seq_len, batch_size, _ = x.size()", []),
    ],
)
def test_the_samples_of_a_batch_are_not_to_attend_to_each_other(text, first, said, ids, tmp_path):
    (result,) = check_text(text.replace("FIRST", first).replace("SAID", said), tmp_path).values()
    found = [(one.id, one.form) for one in result.mistakes if one.severity == "mistake"]
    assert found == [(id, ATTENTION_ALONG_IT) for id in ids], result
    assert (result.verdict in FINE) == (not ids)


POSITIONS = """
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=5000):
        super().__init__()
        pe, position = torch.zeros(max_len, d_model), torch.arange(max_len).unsqueeze(1)
        angles = position * torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe[:, 0::2], pe[:, 1::2] = angles.sin(), angles.cos()
        self.register_buffer("pe", pe.unsqueeze(1))

    def forward(self, x):
        SAID = x.shape
        return x + self.pe[:x.size(0)]
"""


@pytest.mark.parametrize("said, ids", [("B, T, D", ["P4"]), ("T, B, D", [])])
def test_what_a_forward_calls_its_sizes_is_heard_of_positions_too(said, ids, tmp_path):
    (result,) = check_text(POSITIONS.replace("SAID", said), tmp_path).values()
    assert [one.id for one in result.mistakes if one.severity == "mistake"] == ids, result
