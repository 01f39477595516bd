"""A layer that is made inside forward (B21): where it is made, and what it is to be."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

NETWORK = """
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.width = d_model
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        normed = x
        MADE
        return self.down(torch.relu(self.up(normed)))
"""
OWN = """
class Scale(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return self.norm(x)

"""


@pytest.mark.parametrize(
    ("before", "made", "fix"),
    [
        ("", "normed = nn.LayerNorm(self.width).to(x.device)(x)", "self.norm = nn.LayerNorm(…) in __init__; "),
        ("", "normed = nn.Linear(self.width, self.width)(x)", "self.linear = nn.Linear(…) in __init__; "),
        (OWN, "normed = Scale(self.width)(x)", ""),
    ],
)
def test_the_line_that_makes_it_is_shown(before, made, fix, tmp_path):
    result = check_text(before + NETWORK.replace("MADE", made), tmp_path)["FeedForward"]
    (found,) = [one for one in result.mistakes if one.id == "B21"]
    assert found.shown.strip() == made
    assert found.fix.startswith(fix or "self.linear = nn.Linear(...)")
