"""A dropout ready made, a default that is an axis, norms of several eps, models that a method of their own makes.

Each is understood, and with a mistake in it never right.
"""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.report.finding import FINE

CORE = """
class ScaledDotProductAttention(nn.Module):
    def __init__(self, dropout=None):
        super().__init__()
        self.dropout = dropout

    def forward(self, q, k, v, mask=None):
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        weights = scores.softmax(-1)
        if self.dropout is not None:
            weights = self.dropout(weights)
        return weights @ v, weights
"""
ATTENTION = """
class MultiHeadAttention(nn.Module):
    def __init__(self, embed_size, num_heads, dropout, batch_dim=0):
        super().__init__()
        self.h, self.batch_dim = num_heads, batch_dim
        self.dropout = dropout
        self.dropout = nn.Dropout(self.dropout)
        self.q, self.k, self.v, self.out = (nn.Linear(embed_size, embed_size) for _ in range(4))

    def forward(self, q, k, v, mask=None):
        if self.batch_dim == 0:
            found = self.attend(q, k, v, mask)
        elif self.batch_dim == 1:
            found = self.attend(q.mT, k.mT, v.mT, mask)
        return found

    def attend(self, q, k, v, mask):
        q, k, v = (
            w(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for w, x in ((self.q, q), (self.k, k), (self.v, v))
        )
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        return self.out((self.dropout(scores.softmax(-1)) @ v).transpose(1, 2).flatten(2))
"""
MODEL = """
class Words(nn.Module):
    def __init__(self, rows, width):
        super().__init__()
        self.table, self.width = nn.Embedding(rows, width), width

    def forward(self, ids):
        return self.table(ids) * math.sqrt(self.width)


class Scores(nn.Module):
    def __init__(self, width, rows):
        super().__init__()
        self.linear = nn.Linear(width, rows)

    def forward(self, x):
        return F.log_softmax(self.linear(x), dim=-1)


class GPT(nn.Module):
    def __init__(self, first, middle, scores):
        super().__init__()
        self.first, self.middle, self.scores = first, middle, scores

    def forward(self, ids):
        later = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).triu(1)
        x = self.first(ids)
        for block in self.middle:
            x = block(x, src_mask=later)
        return self.scores(x)

    @classmethod
    def from_sizes(cls, vocab_size, d_model, n_layers, n_heads, d_ff):
        blocks = [nn.TransformerEncoderLayer(d_model, n_heads, d_ff, 0.0, batch_first=True) for _ in range(n_layers)]
        return cls(Words(vocab_size, d_model), nn.ModuleList(blocks), Scores(d_model, vocab_size))
"""
NORMS = """
class EncoderLayer(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d_model, eps=1e-5), nn.LayerNorm(d_model, eps=1e-6)
        self.attn = nn.MultiheadAttention(d_model, 3, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))

    def forward(self, x):
        x = self.norm1(x + self.attn(x, x, x)[0])
        return self.norm2(x + self.ff(x))
"""
RIGHT = {
    "norms of two eps": (NORMS, "EncoderLayer"),
    "a dropout ready made": (CORE, "ScaledDotProductAttention"),
    "an axis that is no width": (ATTENTION, "MultiHeadAttention"),
    "a model made by its own method": (MODEL, "GPT"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_it_is_understood(name, tmp_path):
    text, component = RIGHT[name]
    result = check_text(text, tmp_path)[component]
    assert result.verdict in FINE, result


@pytest.mark.parametrize(
    "name, old, new",
    [
        ("norms of two eps", "self.norm2(x + self.ff(x))", "self.norm1(x + self.ff(x))"),
        ("a dropout ready made", "self.dropout(weights)", "self.dropout(scores)"),
        ("an axis that is no width", "found = self.attend(q, k,", "found = self.attend(k, q,"),
        ("a model made by its own method", "triu(1)", "triu(2)"),
        ("a model made by its own method", "self.scores(x)", "self.scores(self.first(ids))"),
    ],
)
@pytest.mark.long
def test_with_a_mistake_it_is_never_right(name, old, new, tmp_path):
    text, component = RIGHT[name]
    assert text.count(old) == 1
    result = check_text(text.replace(old, new), tmp_path)[component]
    assert result.verdict not in FINE, result


@pytest.mark.parametrize("made", ["torch.empty(n, m).normal_()", "nn.Parameter(torch.randn(n, m))"])
def test_weights_that_torch_does_not_see_are_named(made, tmp_path):
    text = f"""
class Linear(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        n, m = out_features, in_features
        self.weight = {made}

    def forward(self, x):
        return x @ self.weight.T
"""
    result = check_text(text, tmp_path)["Linear"]
    assert [found.id for found in result.mistakes] == (["B10"] if "Parameter" not in made else [])


NETWORK = """
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout=None):
        super().__init__()
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        return self.down(self.drop(torch.relu(self.up(x))))
"""


@pytest.mark.parametrize("old, new, verdict", [
    ("", "", "harmless deviation"), ("dropout=None", "dropout=0.1", "matches the builtin"),
    ("nn.Dropout(dropout)", "nn.Dropout(dropout or 0.0)", "matches the builtin"),
    ("super().__init__()", "super().__init__()\n        assert dropout % 3 == 0", "mistake"),
])  # fmt: skip
def test_a_dropout_with_which_it_cannot_be_built(old, new, verdict, tmp_path):
    result = check_text(NETWORK.replace(old, new), tmp_path)["FeedForward"]
    assert (result.verdict, result.ids) == (verdict, [] if verdict.startswith("matches") else ["B26"])
