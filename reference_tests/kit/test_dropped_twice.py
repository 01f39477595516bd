"""B34: a dropout's output that goes straight into another dropout. No number in evaluation shows it."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

LAYER = """
class SelfAttention(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.1):
        super().__init__()
        assert d_model % num_heads == 0
        self.h, self.dropout = num_heads, nn.Dropout(dropout)
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, mask=None):
        q, k, v = (f(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        weights = self.dropout(scores.softmax(-1))
        return {attended}


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.1):
        super().__init__()
        self.attention, self.dropout = SelfAttention(d_model, num_heads, dropout), nn.Dropout(dropout)
        self.network = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Dropout(dropout), nn.Linear(d_ff, d_model))
        self.inner = nn.Dropout({inner})
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, mask=None):
        x = self.norm1(x + self.dropout(self.attention(x, mask)))
        return self.norm2(x + self.dropout({network}))
"""
ATTENDED = "self.o((weights @ v).transpose(1, 2).flatten(2))"
DROPPED = f"self.dropout({ATTENDED})"
NETWORK = "self.network(x)"
TWICE = "self.inner(self.network(x)).contiguous()"


@pytest.mark.parametrize("attended, network, inner, ids, line", [
    (ATTENDED, NETWORK, "dropout", [], ""),
    (DROPPED, NETWORK, "dropout", ["B34"], "x = self.norm1(x + self.dropout(self.attention(x, mask)))"),
    (ATTENDED, TWICE, "dropout", ["B34"], f"return self.norm2(x + self.dropout({TWICE}))"),
    (ATTENDED, TWICE, "0.0", [], ""),
])  # fmt: skip
def test_a_sublayer_that_is_dropped_twice(attended, network, inner, ids, line, tmp_path):
    text = LAYER.format(attended=attended, network=network, inner=inner)
    found = check_text(text, tmp_path)["EncoderLayer"]
    assert [named.id for named in found.mistakes if named.severity != "note"] == ids, found
    if ids:
        (named,) = (named for named in found.mistakes if named.id == "B34")
        assert found.verdict == "harmless deviation"
        assert named.shown.strip() == line


def test_what_is_dropped_by_the_positions_and_by_the_model_that_adds_them(tmp_path):
    text = """
class Embedded(nn.Module):
    def __init__(self, vocab_size, d_model, max_len, dropout=0.1):
        super().__init__()
        self.words, self.positions = nn.Embedding(vocab_size, d_model), Positions(d_model, max_len, dropout)
        self.dropout = nn.Dropout(dropout)

    def forward(self, ids):
        return self.dropout(self.positions(self.words(ids)))


class Positions(nn.Module):
    def __init__(self, d_model, max_len, dropout=0.1):
        super().__init__()
        self.table, self.dropout = nn.Embedding(max_len, d_model), nn.Dropout(dropout)

    def forward(self, x):
        return self.dropout(x + self.table(torch.arange(x.size(1), device=x.device)))
"""
    found = check_text(text, tmp_path)
    assert "B34" in found["Embedded"].ids, found
