"""-∞ that is written into a boolean mask is True there: it blocks where True does, and 1 is added where it is added."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.mistakes.attention import IN_BOOLEANS
from scratch_transformer.kit.report.finding import FINE

MASK = """
def causal_mask(size):
    later = MADE
    WRITTEN
    return later
"""
BOOLEAN, OF_NUMBERS = "torch.ones(size, size).triu(1) == 1", "torch.zeros(size, size)"
INTO = "later[torch.ones(size, size).triu(1) == 1] = -math.inf"
FILLED = "later = later.masked_fill(torch.ones(size, size).triu(1) == 1, -1e9)"
ATTENTION = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h = num_heads
        self.q, self.k, self.v, self.out = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, q, k, v, mask=None):
        pairs = (self.q, q), (self.k, k), (self.v, v)
        q, k, v = (linear(y).unflatten(-1, (self.h, -1)).transpose(1, 2) for linear, y in pairs)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        if mask is not None:
            mask = mask.bool()
            scores = scores + mask.masked_fill(mask == 0, -1e9)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""


@pytest.mark.parametrize("made, is_boolean", [(BOOLEAN, True), (OF_NUMBERS, False)])
@pytest.mark.parametrize("written", [INTO, FILLED])
def test_a_mask_that_stays_boolean_is_told_of(made, written, is_boolean, tmp_path):
    result = check_text(MASK.replace("MADE", made).replace("WRITTEN", written), tmp_path)["causal_mask"]
    found = [(one.id, one.form, one.severity) for one in result.mistakes if one.id == "A16"]
    assert found == [("A16", IN_BOOLEANS, "note")] * is_boolean and result.verdict in FINE, result


@pytest.mark.long
def test_what_adds_it_is_wrong(tmp_path):
    result = check_text(ATTENTION, tmp_path)["MultiHeadAttention"]
    assert result.verdict == "mistake" and {*result.ids} & {"A16", "A24"}, result
