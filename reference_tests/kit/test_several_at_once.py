"""Three mistakes and more in one attention, each of which hides the others."""

import pytest

from reference_tests.kit.learners.checked import MORE, check_text, time_to_look
from scratch_transformer.kit.report.finding import FINE

ATTENTION = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.h = n_heads
        assert d_model % n_heads == 0
        self.d_k = d_model // n_heads
        self.w_q, self.w_k, self.w_v = (nn.Linear(d_model, d_model) for _ in range(3))
        OUT

    def forward(self, q, k, v, mask=None):
        B, T, D = q.shape
        q, k, v = (w(x).view(B, -1, self.h, self.d_k).transpose(1, 2)
                   for w, x in ((self.w_q, q), (self.w_k, k), (self.w_v, v)))
        scores = q @ k.transpose(-2, -1) SCALED
        if mask is not None:
            scores = scores.masked_fill(mask == 0, FILLED)
        out = torch.softmax(scores, dim=AXIS) @ v
        return PROJECTED(MERGED.reshape(B, T, D))
"""
RIGHT = {
    "OUT": "self.w_o = nn.Linear(d_model, d_model)", "SCALED": "/ math.sqrt(self.d_k)", "FILLED": 'float("-inf")',
    "AXIS": "-1", "PROJECTED": "self.w_o", "MERGED": "out.transpose(1, 2)",
}  # fmt: skip
BARE = {"OUT": "", "PROJECTED": ""}
UNSCALED, POSITIVE, OF_QUERIES = {"SCALED": ""}, {"FILLED": "1e9"}, {"AXIS": "-2"}
NOT_BACK = {"MERGED": "out"}


@pytest.mark.parametrize(
    "changes, ids",
    [
        ({}, set()),
        (UNSCALED | OF_QUERIES | POSITIVE, {"A1", "A2", "A4"}),
        (UNSCALED | OF_QUERIES | POSITIVE | BARE, {"A1", "A2", "A4"}),
        (UNSCALED | OF_QUERIES | POSITIVE | NOT_BACK, {"A1", "A2", "A4", "A23"}),
        (UNSCALED | OF_QUERIES | NOT_BACK, {"A1", "A2", "A23"}),
    ],
    ids=["right", "three", "three, and no projection", "four", "three of them without masks"],
)
def test_each_is_named(changes, ids, tmp_path):
    text = ATTENTION
    for place, code in {**RIGHT, **changes}.items():
        text = text.replace(place, code)
    with time_to_look(MORE):
        result = check_text(text, tmp_path)["MultiHeadAttention"]
    assert {one.id for one in result.mistakes if one.severity == "mistake"} == ids, result
    assert (result.verdict in FINE) == (not ids)
    assert any("no output projection" in limit for limit in result.limits) == (changes.get("OUT") == "")
