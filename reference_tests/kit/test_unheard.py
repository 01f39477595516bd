"""B29 of a width of heads, and a probability of dropout, that a constructor takes and nobody hears."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.mistakes.construction import DROPS_ANYWAY, WIDTH_OF_HEADS
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
