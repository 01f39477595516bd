"""The line to look at for a wrong scale of the scores: where the number is made, if a constructor makes it."""

import importlib
import sys

import pytest

from scratch_transformer.kit.report.lines import place

HEADS = """
import math
from torch import nn
class Heads(nn.Module):
    def __init__(self, d_model, num_heads, scale=1.0):
        super().__init__()
        HEAD
        self.SCALE
        self.q, self.k, self.v = (nn.Linear(d_model, d_model) for _ in range(3))
    def forward(self, x):
        q, k, v = (w(x).unflatten(-1, (3, -1)).transpose(1, 2) for w in (self.q, self.k, self.v))
        scores = USE
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
"""
DIVIDED, TIMES = "q @ k.mT / self.scale", "(q * self.scale) @ k.mT"
MADE = "self.d_k = d_model // num_heads"


@pytest.fixture
def heads(tmp_path, monkeypatch):
    def made(head, scale, use):
        name = f"heads_with_scales_{abs(hash((head, scale, use)))}"
        text = HEADS.replace("HEAD", head).replace("SCALE", scale).replace("USE", use)
        (tmp_path / f"{name}.py").write_text(text)
        return importlib.import_module(name).Heads, text.splitlines()

    monkeypatch.syspath_prepend(tmp_path)
    yield made
    for name in [name for name in sys.modules if name.startswith("heads_with_scales_")]:
        del sys.modules[name]


@pytest.mark.parametrize("head, scale, use, put", [
    (MADE, "scale = d_model ** 0.5  # √", DIVIDED, "self.scale = self.d_k ** 0.5  # √"),
    (MADE, "scale = self.d_k ** 0.5", TIMES, "self.scale = self.d_k ** -0.5"),
    ("pass", "scale, self.d_k = math.sqrt(d_model), d_model // num_heads", DIVIDED,
     "self.scale, self.d_k = (d_model // num_heads) ** 0.5, d_model // num_heads"),
    ("pass", "scale = math.sqrt(d_model)", DIVIDED, None),
])  # fmt: skip
def test_where_it_is_made_is_shown_and_mended(head, scale, use, put, heads):
    cls, lines = heads(head, scale, use)
    found = place("A1", "divided by √d_model", cls)
    assert lines[found.line - 1].strip() == f"self.{scale}"
    assert [line.strip() for line in found.put] == [*filter(None, [put])]


@pytest.mark.parametrize("scale, use, form", [
    ("scale = self.d_k ** 0.5", DIVIDED, "divided by √d_model"),  # right there
    ("scale = self.d_k ** -0.5", "(q * self.scale) @ (k * self.scale).mT", "divided by d_k"),
    ("scale = scale", DIVIDED, "divided by √d_model"),
    ("scale = d_model ** 0.5", "q @ k.mT", "not scaled"),
])  # fmt: skip
def test_where_it_is_only_told_or_right_the_scores_are_shown(scale, use, form, heads):
    cls, lines = heads(MADE, scale, use)
    assert lines[place("A1", form, cls).line - 1].strip() == f"scores = {use}"


@pytest.mark.parametrize("scale, use, line", [
    ("scale = self.d_k ** -0.5", "(q * self.scale) @ k.mT / math.sqrt(self.d_k)", "scores = "),
    ("d = 1", "1\n        q = q * self.d_k ** -0.5\n        scores = q @ k.mT / self.d_k ** 0.5", "q = q * "),
    ("d = 1", "1\n        q /= self.d_k ** 0.5\n        scores = q @ k.mT\n        scores /= self.d_k ** 0.5", "q /="),
])  # fmt: skip
def test_of_what_scales_twice_the_first_is_shown_and_the_fix_is_to_leave_one_out(scale, use, line, heads):
    cls, lines = heads(MADE, scale, use)
    found = place("A1", "divided by d_k", cls)
    assert lines[found.line - 1].strip().startswith(line) and not found.put and "leave" in found.fix
    other = place("A1", "divided by √d_model", cls)
    assert not other.fix


def test_what_divides_by_something_else_than_a_root_is_the_line(heads):
    cls, lines = heads(MADE, "d = 1", "q @ k.mT / k.shape[-1]")
    assert lines[place("A1", "divided by d_k", cls).line - 1].strip() == "scores = q @ k.mT / k.shape[-1]"
