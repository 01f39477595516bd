"""A file that is run a second time, as its package imports it too: a registry that has its names is no fault of it."""

import pytest

from reference_tests.kit.learners.checked import reported

pytestmark = pytest.mark.long

REGISTRY = """
NAMES = {}


def register(name):
    def keep(cls):
        if name in NAMES:
            raise KeyError(f"Name {name!r} already registered")
        NAMES[name] = cls
        return cls

    return keep
"""
NETWORK = """
@register("{}")
class {}(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.wide, self.narrow = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.narrow(torch.relu(self.wide(x)))
"""
HEAD = "import torch\nfrom torch import nn\nfrom registry import register\n"
STOPS = "\nraise RuntimeError('no data')\n"


@pytest.mark.parametrize("name, verdict", [("other", "matches the builtin"), ("network", "could not be defined")])
def test_of_a_name_that_it_registers_once(name, verdict, tmp_path):
    (tmp_path / "registry.py").write_text(REGISTRY)
    text = HEAD + NETWORK.format("network", "FeedForward") + NETWORK.format(name, "PositionwiseFeedForward") + STOPS
    (tmp_path / "parts.py").write_text(text)
    report = reported(tmp_path / "parts.py")
    found = {result.name: result.verdict for result in report.results}
    assert found["PositionwiseFeedForward"] == verdict
    if name == "other":
        assert found["FeedForward"] == verdict and "registered" not in str(report)
