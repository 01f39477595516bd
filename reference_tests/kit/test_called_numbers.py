"""B26: a probability that is called like a module, in the function that it is handed to."""

import pytest

from reference_tests.kit.learners.checked import check_text

TEXT = """
def attention(query, key, value, mask=None, dropout=None):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    weights = F.softmax(scores, dim=-1)
    if dropout is not None:
        weights = dropout(weights)
    return weights @ value, weights


class MultiHeadAttention(nn.Module):
    def __init__(self, heads, d_model, dropout=0.1):
        super().__init__()
        assert d_model % heads == 0
        self.heads, self.d_k = heads, d_model // heads
        self.linears = nn.ModuleList([nn.Linear(d_model, d_model) for _ in range(4)])
        self.dropout = MADE

    def forward(self, query, key, value, mask=None):
        n = query.size(0)
        query, key, value = [
            linear(x).view(n, -1, self.heads, self.d_k).transpose(1, 2)
            for linear, x in zip(self.linears, (query, key, value))
        ]
        x, self.weights = attention(query, key, value, HANDED)
        return self.linears[-1](x.transpose(1, 2).contiguous().view(n, -1, self.heads * self.d_k))


class EncoderLayer(nn.Module):
    def __init__(self, heads, d_model, d_ff, dropout=0.1):
        super().__init__()
        self.attention = MultiHeadAttention(heads, d_model)
        self.network = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2, self.dropout = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.Dropout(dropout)

    def forward(self, x, mask):
        x = self.norm1(x + self.dropout(self.attention(x, x, x, mask)))
        return self.norm2(x + self.dropout(self.network(x)))
"""


@pytest.mark.long
@pytest.mark.parametrize("handed", ["mask=mask, dropout=self.dropout", "mask, self.dropout"])
def test_a_probability_that_is_called_is_named_where_it_is_called(tmp_path, handed):
    results = check_text(TEXT.replace("MADE", "dropout").replace("HANDED", handed), tmp_path)
    attention, layer = results["MultiHeadAttention"], results["EncoderLayer"]
    assert (attention.verdict, attention.ids) == ("mistake", ["B26"])
    assert "self.dropout, a number" in attention.mistakes[0].evidence
    assert attention.mistakes[0].shown.strip() == ("weights = dropout(weights)")
    assert layer.replaced == ["MultiHeadAttention"]  # what is left of it is right


@pytest.mark.parametrize("made", ["nn.Dropout(dropout)", "None"])
def test_a_module_that_is_called_is_right(tmp_path, made):
    text = TEXT.replace("MADE", made).replace("HANDED", "mask, self.dropout")
    results = check_text(text, tmp_path)
    assert "B26" not in results["MultiHeadAttention"].ids and results["MultiHeadAttention"].error < 1e-12


def test_what_may_be_a_module_is_not_called_a_number(tmp_path):
    text = TEXT.replace("dropout=0.1", "dropout").replace("MADE", "dropout").replace("HANDED", "mask, self.dropout")
    assert "B26" not in check_text(text, tmp_path)["MultiHeadAttention"].ids
