"""B26: one tensor where several are asked for, which two samples hide: output, weights = self.attention(x)."""

import importlib
import sys

import pytest
import torch

from reference_tests.kit.learners.checked import IMPORTS, LESS, check_text, time_to_look
from scratch_transformer.kit.judge.stops.crashes import crash_finding

LAYER = """
class Attend(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.heads = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        y, weights = self.heads(x, x, x)
        y = self.dropout(y)
        return RETURNED


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, MORE):
        super().__init__()
        self.attention = MADE
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norm1, self.norm2, self.dropout = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.Dropout(0.1)

    def forward(self, x):
        y, weights = self.attention(x)
        x = self.norm1(x + y)
        return self.norm2(x + self.dropout(self.down(torch.relu(self.up(x)))))
"""


def layer(returned, made, more=""):
    return LAYER.replace("RETURNED", returned).replace("MADE", made).replace(", MORE", more)


@pytest.fixture
def stopped(tmp_path, monkeypatch):
    """What a layer stops with, with three samples."""
    monkeypatch.syspath_prepend(tmp_path)

    def stop(*said):
        (tmp_path / "takes_apart.py").write_text(IMPORTS + layer(*said), encoding="utf-8")
        module = importlib.import_module("takes_apart")
        made = module.EncoderLayer(12, 3, 5, *([module.Attend(12, 3)] if said[2:] else []))
        with pytest.raises(ValueError) as raised:
            made(torch.ones(3, 4, 12))
        return crash_finding(raised.value)

    yield stop
    sys.modules.pop("takes_apart", None)


@pytest.mark.parametrize("returned, is_named", [
    ("y", True), ("y * 1", True), ("self.heads(x, x, x)[0].relu()", True), ("tuple(y)", False),
    ("y.chunk(3)", False), ("self.heads(x, x, x)[0].unbind()", False),
])  # fmt: skip
def test_a_tensor_that_is_taken_apart_sample_by_sample(returned, is_named, stopped):
    found = stopped(returned, "Attend(d_model, num_heads)")
    assert (found is not None) == is_named
    assert not is_named or "self.attention returns one tensor, and 2 values are asked for" in found.evidence


@pytest.mark.parametrize("returned, is_named", [
    ("y, weights, x", True), ("(y, weights, (x, y))", True), ("(y, *weights)", False),
    ("(y, weights, x) if x.dim() == 3 else (y, weights)", False),
])  # fmt: skip
def test_more_values_than_are_asked_for(returned, is_named, stopped):
    found = stopped(returned, "Attend(d_model, num_heads)")
    assert (found is not None) == is_named
    assert not is_named or "self.attention returns 3 values, and 2 are asked for" in found.evidence
    assert not is_named or "As many names as there are values" in found.fix
    assert not is_named or found.evidence.endswith("y, weights = self.attention(x)")


def test_what_is_given_may_be_another_part_that_returns_two(stopped):
    assert stopped("y", "attend", ", attend") is None


@pytest.mark.long
def test_two_samples_do_not_hide_it(tmp_path):
    with time_to_look(LESS):
        result = check_text(layer("y", "Attend(d_model, num_heads)"), tmp_path)["EncoderLayer"]
    assert (result.verdict, [m.id for m in result.mistakes][:1]) == ("mistake", ["B26"])
    result = check_text(layer("y, weights", "Attend(d_model, num_heads)"), tmp_path)["EncoderLayer"]
    assert result.verdict in ("matches the builtin", "harmless deviation")
