"""Arguments in another order than a constructor takes them in, which stops with them, are B26."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

PARTS = """
class Network(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))

class Residual(nn.Module):
    def __init__(self, rate, width):
        super().__init__()
        self.drop, self.norm = nn.Dropout(rate), nn.LayerNorm(width)

    def forward(self, x, f):
        return x + self.drop(f(self.norm(x)))

class Block(nn.Module):
    def __init__(self, width, heads, inner, rate):
        super().__init__()
        self.attn = nn.MultiheadAttention(width, heads, dropout=rate, batch_first=True)
        self.net = Network(width, inner)
        self.around = nn.ModuleList([CALLED for _ in range(2)])

    def forward(self, x):
        x = self.around[0](x, lambda y: self.attn(y, y, y, need_weights=False)[0])
        return self.around[1](x, self.net)
"""


def judged(called, tmp_path, parts=PARTS):
    return check_text(parts.replace("CALLED", called), tmp_path)["Block"]


def test_a_constructor_that_is_given_its_arguments_in_another_order_stops(tmp_path):
    result = judged("Residual(width, rate)", tmp_path)
    (found,) = result.mistakes
    assert (result.severe, found.form) == (["B26"], "Residual"), result
    assert "gives Residual width and rate, where that takes rate and width" in found.evidence
    assert "Residual(width=width, rate=rate)" in found.fix and "order" in found.does
    assert "Residual(width, rate)" in (tmp_path / "learner.py").read_text().splitlines()[found.line - 1]


@pytest.mark.parametrize("called", ["Residual(rate, width)", "Residual(width=width, rate=rate)"])
def test_in_the_right_order_or_by_name_it_runs(called, tmp_path):
    assert judged(called, tmp_path).severe == []


@pytest.mark.parametrize("called", ["Residual(heads, width)", "Residual(width, heads)"])
def test_other_names_say_nothing_of_an_order(called, tmp_path):
    """What is given may be meant for the place that it is in."""
    assert "B26" not in judged(called, tmp_path).severe


def test_what_stops_in_the_right_order_too_is_not_told_so(tmp_path):
    parts = PARTS.replace("nn.Dropout(rate), ", "nn.Dropout(rate + 2), ")
    assert "where that takes" not in str(judged("Residual(width, rate)", tmp_path, parts).mistakes)
