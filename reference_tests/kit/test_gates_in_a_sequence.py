"""A gate that is a module of its own, before the linear layer that leads back: together a whole network."""

import pytest

from reference_tests.kit.learners.checked import check_text

GATE = """
class Gate{}(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.both = nn.Linear(d_in, 2 * d_out)

    def forward(self, x):
        value, gate = self.both(x).chunk(2, dim=-1)
        return value * F.gelu({})
"""
NETWORK = """

class FeedForwardGEGLU(nn.Module):
    def __init__(self, {}):
        super().__init__()
        self.layers = nn.Sequential(Gate(d_model, {}), nn.Linear({}, d_model))

    def forward(self, x):
        return self.layers(x)
"""


@pytest.mark.parametrize(
    "told, wide", [("d_model", "4 * d_model"), ("d_model", "5 * d_model"), ("d_model, d_ff", "d_ff")]
)
def test_it_is_a_network(told, wide, tmp_path):
    results = check_text(GATE.format("", "gate") + NETWORK.format(told, wide, wide), tmp_path)
    assert [*results] == ["FeedForwardGEGLU"]  # its gate alone is no half of a network
    result = results["FeedForwardGEGLU"]
    assert (result.verdict, result.limits) == ("matches the builtin", [])
    assert result.error < 1e-12


def test_its_gate_without_a_sign_is_another_one(tmp_path):
    text = GATE.format("", "-gate") + NETWORK.format("d_model", "4 * d_model", "4 * d_model")
    assert check_text(text, tmp_path)["FeedForwardGEGLU"].verdict == "unknown mismatch"


def test_a_gate_alone_is_none(tmp_path):
    text = GATE.format("GLU", "gate")
    assert "without a projection after it" in check_text(text, tmp_path)["GateGLU"].verdict
