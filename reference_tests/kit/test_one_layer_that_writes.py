"""A model with one layer for each side, whatever number it is told, and a method that writes text with it in a loop."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

TEXT = """
class EncoderLayer(nn.Module):
    def __init__(self, width, heads, wide, **others):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.up, self.down = nn.Linear(width, wide), nn.Linear(wide, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x, pads=None):
        x = self.first(x + self.attention(x, x, x, key_padding_mask=pads)[0])
        return self.second(x + self.down(self.up(x).relu()))


class DecoderLayer(nn.Module):
    def __init__(self, width, heads, wide, **others):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.across = nn.MultiheadAttention(width, heads, batch_first=True)
        self.up, self.down = nn.Linear(width, wide), nn.Linear(wide, width)
        self.first, self.second, self.third = nn.LayerNorm(width), nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x, memory, pads=None):
        later = torch.ones(x.size(1), x.size(1), dtype=torch.bool, device=x.device).triu(1)
        x = self.first(x + self.attention(x, x, x, attn_mask=later)[0])
        x = self.second(x + self.across(x, memory, memory, key_padding_mask=pads)[0])
        return self.third(x + self.down(self.up(x).relu()))


class TransformerModel(nn.Module):
    def __init__(self, src_vocab_size, tgt_vocab_size, d_model, n_heads, d_ff, num_layers):
        super().__init__()
        self.source, self.target = nn.Embedding(src_vocab_size, d_model), nn.Embedding(tgt_vocab_size, d_model)
        self.encoder = EncoderLayer(d_model, n_heads, d_ff, n_layers=num_layers)
        self.decoder = DecoderLayer(d_model, n_heads, d_ff, n_layers=num_layers)
        self.scores = nn.Linear(d_model, tgt_vocab_size)

    def forward(self, src, tgt, src_pads=None):
        return self.scores(self.decoder(self.target(tgt), self.encoder(self.source(src), src_pads), src_pads))

    @torch.no_grad()
    def METHOD(self, src, bos_id, eos_id, max_length=50):
        memory, ids = self.encoder(self.source(src)), torch.full((1, 1), bos_id)
        for _ in range(max_length):
            word = self.scores(self.decoder(self.target(ids), memory))[:, -1].argmax(-1)
            ids = torch.cat([ids, word[:, None]], 1)
            if word.item() == eos_id:
                break
        return ids
"""


@pytest.mark.parametrize("method", ["generate", "greedy_decode", "translate"])
def test_that_it_has_one_alone_is_all_that_is_told(method, tmp_path):
    result = check_text(TEXT.replace("METHOD", method), tmp_path, ["TransformerModel"])["TransformerModel"]
    (found,) = (one for one in result.mistakes if one.severity == "mistake")
    assert (found.id, found.form) == ("B28", "the first alone")
    assert found.shown.strip() == "self.encoder = EncoderLayer(d_model, n_heads, d_ff, n_layers=num_layers)"
