"""A40: dropout of the scores, before the softmax. No number in evaluation shows it."""

import pytest

from reference_tests.kit.learners.checked import check_text

CORE = """
def attention(q, k, v, mask=None, {told}):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
{dropped}
    return weights @ v
"""
GIVEN = """
    if dropout is not None:
        scores = dropout(scores)
    weights = scores.softmax(-1)
"""
AFTERWARDS = """
    weights = scores.softmax(-1)
    if dropout is not None:
        weights = dropout(weights)
"""
BY_HAND = """
    scores = F.dropout(scores, p, training)
    weights = torch.exp(scores - scores.max(-1, keepdim=True).values)
    weights = weights / weights.sum(-1, keepdim=True)
"""
SAMPLED = "    weights = F.dropout(scores.softmax(-1), p, training)"
OF_SHARES = "p=0.1, training=False"

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
        {dropped}
        return self.o((weights @ v).transpose(1, 2).flatten(2))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.1):
        super().__init__()
        self.attention, self.dropout = SelfAttention(d_model, num_heads, dropout), nn.Dropout(dropout)
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, mask=None):
        x = x + self.dropout(self.attention(self.norm1(x), mask))
        return x + self.dropout(self.down(self.dropout(torch.relu(self.up(self.norm2(x))))))
"""
BEFORE = "weights = torch.softmax(self.dropout(scores), dim=-1)"
AFTER = "weights = self.dropout(torch.softmax(scores, dim=-1))"
BOTH = "weights = self.dropout(torch.softmax(self.dropout(scores), dim=-1))"


@pytest.mark.parametrize(
    ("told", "dropped", "ids"),
    [
        ("dropout=None", GIVEN, ["A40"]),
        (OF_SHARES, BY_HAND, ["A40"]),
        (OF_SHARES, SAMPLED, []),
        ("dropout=None", AFTERWARDS, []),
    ],
)
def test_a_core_that_drops_scores(told, dropped, ids, tmp_path):
    result = check_text(CORE.format(told=told, dropped=dropped), tmp_path)["attention"]
    assert result.severe == ids, result


@pytest.mark.parametrize(("dropped", "ids"), [(BEFORE, ["A40"]), (BOTH, ["A40"]), (AFTER, [])])
def test_heads_and_what_contains_them(dropped, ids, tmp_path):
    results = check_text(LAYER.replace("{dropped}", dropped), tmp_path)
    assert results["SelfAttention"].severe == ids
    assert "A18" not in results["SelfAttention"].ids
    if ids:
        assert results["SelfAttention"].mistakes[0].code[2].strip() == dropped
    assert (results["EncoderLayer"].severe, results["EncoderLayer"].inherited) == ([], ids)
