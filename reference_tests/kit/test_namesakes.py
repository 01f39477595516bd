"""Files of one name in several folders of a project: each folder's own are what its files import, and what is shown."""

import pytest

from reference_tests.kit.learners.checked import IMPORTS, reported
from scratch_transformer.kit.report.finding import FINE

pytestmark = pytest.mark.long

NORM = """
class Norm(nn.Module):
    def __init__(self, SIZES):
        super().__init__()
        self.gain, self.offset = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        spread = x.var(-1, keepdim=True, unbiased=BIASED)
        return self.gain * (x - x.mean(-1, keepdim=True)) / torch.sqrt(spread + 1e-5) + self.offset
"""
NETWORK = """
from norms import Norm

class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model), Norm(GIVEN)

    def forward(self, x):
        return self.norm(x + self.down(torch.relu(self.up(x))))
"""
FIRST, SECOND, THIRD = 1, 2, 3
"""The numbers of lessons, and of the empty lines with which their files begin."""


@pytest.fixture(scope="module")
def lessons(tmp_path_factory):
    """Lessons with files of the same names; in the second a norm is told its width by another name, and is wrong."""
    folder = tmp_path_factory.mktemp("course")
    for lesson, sizes, given, biased in (
        (FIRST, "width", "width=d_model", "False"),
        (SECOND, "*, features", "features=d_model", "True"),
        (THIRD, "width", "d_model", "False"),
    ):
        here, head = folder / f"lesson{lesson}", "\n" * lesson + IMPORTS
        here.mkdir()
        norm = NORM.replace("SIZES", sizes).replace("BIASED", biased)
        norm = norm.replace("(width))", "(features))") if lesson == SECOND else norm
        (here / "norms.py").write_text(head + norm)
        (here / "network.py").write_text(head + NETWORK.replace("GIVEN", given))
    return reported(folder).results


def of(lessons, name, lesson):
    """The result of the class of a lesson: told by its line."""
    found = sorted((one for one in lessons if one.name == name), key=lambda one: int(one.where.rpartition(":")[2]))
    assert len(found) == THIRD, [(one.name, one.where) for one in lessons]
    return found[lesson - 1]


@pytest.mark.parametrize("lesson", [FIRST, SECOND, THIRD])
def test_each_network_is_made_of_its_own_folders_norm(lessons, lesson):
    result = of(lessons, "FeedForward", lesson)
    assert "B26" not in result.ids and (result.verdict in FINE) == (lesson != SECOND), result


def test_the_lines_shown_are_those_of_the_class_that_is_wrong(lessons):
    (wrong,) = [one for one in of(lessons, "Norm", SECOND).mistakes if one.id == "LN1"]
    assert any("unbiased=True" in line for line in wrong.code), wrong.code
