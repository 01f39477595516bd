"""A class with layers and a forward that is no nn.Module: nothing that has it sees their weights (B10)."""

import pytest

from reference_tests.kit.learners.checked import reported, written

pytestmark = pytest.mark.long

NETWORK = """
class FeedForward:
    def __init__(self, d_model, d_ff):
        self.one, self.two = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        return self.two(self.drop(F.relu(self.one(x))))
"""
LAYER = """
class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.network = FeedForward(d_model, d_ff)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x):
        x = self.norm1(x + self.attention(x, x, x)[0])
        return self.norm2(x + self.network(x))
"""


def results(text, folder):
    return {result.name: result for result in reported(written(text, folder)).results}


def test_it_is_named_with_its_line(tmp_path):
    (mistake,) = results(NETWORK, tmp_path)["FeedForward"].mistakes
    assert (mistake.id, mistake.put) == ("B10", ["class FeedForward(nn.Module):"])
    assert mistake.shown == "class FeedForward:"
    assert "weights of its nn.Linear." in mistake.evidence and "is not callable" in mistake.evidence


@pytest.mark.parametrize("call", ["network(x)", "network.forward(x)"])
def test_it_is_the_mistake_of_what_has_it(call, tmp_path):
    without = NETWORK.replace("        self.drop = nn.Dropout(0.1)\n", "").replace("self.drop(F", "(F")  # else B12
    layer = results(without + LAYER.replace("network(x)", call), tmp_path)["EncoderLayer"]
    assert (layer.verdict, layer.ids, layer.inherited) == ("mistake", [], ["B10"])


def test_what_can_be_called_is_not_said_to_stop(tmp_path):
    (mistake,) = results(NETWORK.replace("forward", "__call__"), tmp_path)["FeedForward"].mistakes
    assert mistake.id == "B10" and "callable" not in mistake.evidence


OFFERED = "\n    def parameters(self):\n        return [*self.one.parameters(), *self.two.parameters()]\n"
MIXED_IN = "\n\nclass Network(FeedForward, nn.Module):\n    pass\n"


@pytest.mark.parametrize(
    "text",
    [
        NETWORK.replace("FeedForward:", "FeedForward(nn.Module):").replace("(self, d_model, d_ff):", "(self, d_model, "
        "d_ff):\n        super().__init__()"),
        NETWORK + OFFERED,
        NETWORK + MIXED_IN,
        NETWORK.replace("FeedForward", "Report"),
        "import a_package_nobody_has as other\n" + NETWORK.replace("FeedForward:", "FeedForward(other.Layer):"),
        NETWORK.replace("nn.Linear", "Halves.of") + "\n\nclass Halves:\n    of = None\n",
    ],
    ids=[
        "a module", "it has parameters()", "modules inherit it", "no part",
        "its base is not there", "no layers of torch's",
    ],
)  # fmt: skip
def test_nothing_else_is(text, tmp_path):
    assert not any("B10" in result.ids for result in results(text, tmp_path).values())
