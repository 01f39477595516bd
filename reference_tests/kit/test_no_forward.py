"""A forward that Python does not find, or that gives nothing, stops what calls it (B26)."""

import pytest

from reference_tests.kit.learners.checked import IMPORTS, check_text
from scratch_transformer.kit.resolve import foreign

NETWORK = """
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
"""
BODY = "return self.linear2(torch.relu(self.linear1(x)))\n"
WITHIN = f"\n        def forward(self, x):\n            {BODY}"
MISSPELT = f"\n    def foward(self, x):\n        {BODY}"
BEHIND = f"\n\ndef forward(self, x):\n    {BODY}"
OTHERWISE = f"\n    def run(self, x):\n        {BODY}"
CALLS_IT = "\n\nclass Block(nn.Module):\n    def forward(self, x):\n        return x + self.network.foward(x)\n"
OF_A_SORT = "\n\nclass Network(FeedForward):\n    def forward(self, x):\n        return self.foward(x)\n"


@pytest.mark.parametrize("text, says", [
    (WITHIN, "its forward is within __init__, one level too deep"),
    (MISSPELT, "what is to be its forward is called foward"),
    (BEHIND, "its forward is behind the class, not in it"),
])  # fmt: skip
def test_a_forward_that_python_does_not_find_is_named(text, says, tmp_path):
    network = check_text(NETWORK + text, tmp_path)["FeedForward"]
    (mistake,) = network.mistakes
    assert (network.verdict, mistake.id) == ("mistake", "B26") and says in mistake.evidence
    assert mistake.line == len((IMPORTS + NETWORK).splitlines()) + 2 or text is BEHIND
    assert "missing the required" in network.problem or text is MISSPELT


def test_a_constructor_that_stops_already_is_named_before_it(tmp_path):
    network = check_text(NETWORK.replace("        super().__init__()\n", "") + MISSPELT, tmp_path)["FeedForward"]
    assert network.ids == ["LN8", "B26"] and network.mistakes[0].line == len(IMPORTS.splitlines()) + 3


@pytest.mark.parametrize("text", [
    OTHERWISE,
    MISSPELT + CALLS_IT,
    MISSPELT + OF_A_SORT,
    BEHIND + "\n\nFeedForward.forward = forward\n",
    WITHIN + "\n        self.forward = lambda x: forward(self, x)\n",
])  # fmt: skip
def test_what_is_called_otherwise_is_no_alarm(text, tmp_path):
    found = check_text(NETWORK + text, tmp_path).get("FeedForward")
    assert found is None or not found.mistakes, found


def test_a_base_without_forward_is_abstract():
    class Base(foreign.nn.Module):
        pass

    class Writes(foreign.nn.Module):
        def generate(self, ids):
            return self(ids).argmax(-1)

    assert {foreign.why_not(Base), foreign.why_not(Writes)} == {"abstract: it has no forward"}


def test_what_is_used_by_its_methods_is_not_abstract():
    class Rotary(foreign.nn.Module):
        def tables(self, length):
            return length

        def rotate(self, x, offset=0):
            return x * offset

    assert foreign.why_not(Rotary) == "it has no forward: it is used by its tables and its rotate"


WITHOUT_RETURN = f"\n    def forward(self, x):\n        x = torch.relu(self.linear1(x))\n        {BODY}".replace(
    "return", "x ="
)


def test_a_forward_that_returns_nothing_is_told_so(tmp_path):
    network = check_text(NETWORK + WITHOUT_RETURN, tmp_path)["FeedForward"]
    (mistake,) = network.mistakes
    assert (network.verdict, mistake.id) == ("mistake", "B26") and "ends without return" in mistake.evidence
    assert mistake.line == len((IMPORTS + NETWORK).splitlines()) + 4
    assert "returns None" in network.problem


def test_a_module_of_what_returns_nothing_has_that_from_its_part(tmp_path):
    text = NETWORK + WITHOUT_RETURN
    text += """

class ResidualConnection(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.norm, self.network = nn.LayerNorm(d_model), FeedForward(d_model, d_ff)

    def forward(self, x):
        return self.norm(x + self.network(x))
"""
    assert all("TypeError" not in one.problem or one.ids for one in check_text(text, tmp_path).values())


@pytest.mark.parametrize("end", ["# TODO: the second layer", "raise NotImplementedError", "pass"])
def test_a_forward_that_is_not_written_yet_is_no_such_mistake(end, tmp_path):
    found = check_text(NETWORK + WITHOUT_RETURN + f"        {end}\n", tmp_path).get("FeedForward")
    assert found is None or not found.mistakes, found
