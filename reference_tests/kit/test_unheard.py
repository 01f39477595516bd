"""B29 of a width of heads, and a probability of dropout, that a constructor takes and nobody hears."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.mistakes.construction import DROPS_ANYWAY, PART_DROPS_ANYWAY, WIDTH_OF_HEADS
from scratch_transformer.kit.report.finding import FINE

ATTENTION = """
class MultiHeadAttention(nn.Module):
    def __init__(self, n_embd, n_head, head_size):
        super().__init__()
        self.n_head, self.head_size = n_head, head_size
        assert n_embd % n_head == 0
        self.d_k = WIDTH
        self.w_q, self.w_k, self.w_v = (nn.Linear(n_embd, n_head * self.d_k) for _ in range(3))
        self.proj = nn.Linear(n_head * self.d_k, n_embd)

    def forward(self, x):
        q, k, v = (w(x).unflatten(-1, (self.n_head, self.d_k)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        weights = (q @ k.transpose(-2, -1) / math.sqrt(self.d_k)).softmax(-1)
        return self.proj((weights @ v).transpose(1, 2).flatten(2))
"""


@pytest.mark.parametrize("width, forms", [("head_size", []), ("n_embd // n_head", [WIDTH_OF_HEADS])])
def test_a_width_of_heads_that_is_told_is_to_be_theirs(width, forms, tmp_path):
    result = check_text(ATTENTION.replace("WIDTH", width), tmp_path)["MultiHeadAttention"]
    assert [(one.form, one.severity) for one in result.mistakes if one.id == "B29"] == [(f, "harmless") for f in forms]
    assert result.verdict in FINE, result


ENCODER = """
class Encoder(nn.Module):
    def __init__(self, d_model, nhead, d_ff, num_layers, dropout=0.1):
        super().__init__()
        self.dropout = dropout
        self.layers = nn.ModuleList()
        for _ in range(num_layers):
            self.layers.append(nn.TransformerEncoderLayer(d_model, nhead, d_ff, HANDED batch_first=True))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""


@pytest.mark.parametrize(
    "handed, forms", [("dropout=dropout,", []), ("dropout=self.dropout,", []), ("", [DROPS_ANYWAY]), ("0.0,", [])]
)
def test_what_is_told_to_drop_nothing_is_to_drop_nothing(handed, forms, tmp_path):
    result = check_text(ENCODER.replace("HANDED", handed), tmp_path)["Encoder"]
    found = [one for one in result.mistakes if one.id == "B29"]
    assert [(one.form, one.severity) for one in found] == [(form, "mistake") for form in forms], result
    assert all("TransformerEncoderLayer(" in one.shown for one in found)


LAYER = """
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.1):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Dropout(dropout), nn.Linear(d_ff, d_model))

    def forward(self, x):
        return self.net(x)


class EncoderLayer(nn.Module):
    def __init__(self, d_model, nhead, d_ff, dropout=0.1):
        super().__init__()
        self.attention = nn.MultiheadAttention(d_model, nhead, ATTENTION batch_first=True)
        self.ff = FeedForward(FF)
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(2))
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x):
        x = self.norms[0](x + self.dropout(self.attention(x, x, x, need_weights=False)[0]))
        return self.norms[1](x + self.dropout(self.ff(x)))
"""


@pytest.mark.parametrize(
    "attention, ff, dropout, shown",
    [
        ("dropout,", "d_model, d_ff, dropout", "dropout", []),
        ("dropout=dropout,", "d_model, d_ff", "dropout", ["self.ff = FeedForward(d_model, d_ff)"]),
        ("0.1,", "d_model, d_ff, dropout=dropout", "dropout", ["nn.MultiheadAttention(d_model, nhead, 0.1,"]),
        ("dropout,", "d_model, d_ff, dropout", "0.1", ["self.dropout = nn.Dropout(0.1)"]),
        ("", "d_model, d_ff, dropout", "dropout", []),
    ],
)
def test_every_part_of_what_is_told_to_drop_nothing_is_told_so(attention, ff, dropout, shown, tmp_path):
    written = LAYER.replace("ATTENTION", attention).replace("FF)", f"{ff})").replace("DROPOUT", dropout)
    result = check_text(written, tmp_path)["EncoderLayer"]
    found = [one for one in result.mistakes if one.id == "B29"]
    assert [(one.form, one.severity) for one in found] == [(PART_DROPS_ANYWAY, "harmless") for _ in shown], result
    assert all(line in one.shown for line, one in zip(shown, found, strict=True)), found
    assert result.verdict in FINE, result


def test_several_probabilities_are_each_told_to_their_own(tmp_path):
    """attn_drop is another one: what is told 0 of them is what is called dropout."""
    of_two = LAYER.replace(
        "d_ff, dropout=0.1):\n        super().__init__()\n        self.attention",
        "d_ff, dropout=0.1, attn_drop=0.1):\n        super().__init__()\n        self.attention",
    )
    written = (
        of_two.replace("ATTENTION", "attn_drop,")
        .replace("FF)", "d_model, d_ff, dropout)")
        .replace("DROPOUT", "dropout")
    )
    result = check_text(written, tmp_path)["EncoderLayer"]
    assert "attn_drop" in written and "B29" not in result.ids, result
