"""Attention without a softmax, which need not make scores and so ignores its mask, within a layer (A37, A24)."""

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.report.finding import Result
from scratch_transformer.kit.report.words import explanation

pytestmark = pytest.mark.long

LAYER = """
class Mixing(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x, mask=None):
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        return self.o((MIXED).transpose(1, 2).flatten(2))

class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.mixing = Mixing(d_model, num_heads)
        self.network = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, mask=None):
        x = self.norm1(x + self.mixing(x, mask))
        return self.norm2(x + self.network(x))
"""


@pytest.mark.parametrize("mixed, ids", [
    ("q @ (k.mT @ v) / math.sqrt(q.size(-1))", {"A24", "A37"}),
    ("(q @ k.mT / math.sqrt(q.size(-1))).softmax(-1) @ v", {"A24"}),
])  # fmt: skip
@pytest.mark.long
def test_no_softmax_and_no_mask_are_found_together(mixed, ids, tmp_path):
    found = check_text(LAYER.replace("MIXED", mixed), tmp_path)["EncoderLayer"]
    assert found.verdict == "mistake" and not found.unexplained
    assert {*found.ids, *found.inherited} - {"A19"} == ids


def test_what_agrees_but_for_a_part_that_nothing_explains_is_not_said_to_differ():
    result = Result("Block", "f.py:1", "EncoderLayer", "unknown mismatch", 4e-16, "torch.nn", replaced=["Odd"])
    text = " ".join(" ".join(explanation(result)).split())
    assert "differ" not in text
    assert "with the reference's in place of its Odd it gives the numbers of torch.nn" in text
