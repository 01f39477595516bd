"""The line to look at where a call is written on several lines, of which one has arguments alone."""

import importlib
import sys
from pathlib import Path

import pytest

from scratch_transformer.kit.report.lines import place

PARTS = """
from torch import nn
class AddNorm(nn.Module):
    def __init__(self, width, layer_norm_eps):
        super().__init__()
        self.normed = nn.LayerNorm(
            width,
            layer_norm_eps,
        )
    def forward(self, x, y):
        return self.normed(x + y)
class Block(nn.Module):
    def __init__(self, width, heads, layer_norm_eps):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads)
        self.residual = AddNorm(
            width,
            layer_norm_eps
        )
    def forward(self, x):
        x = self.residual(x, self.attention(x, x, x)[0])
        return self.residual(x, x)
"""
MODEL = """
from torch import nn
from parts_in_lines import Block
class Model(nn.Module):
    def __init__(self, width, heads, depth, layer_norm_eps):
        super().__init__()
        self.blocks = nn.ModuleList([Block(
            width, heads, layer_norm_eps
        ) for _ in range(depth)])
    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x
"""


@pytest.fixture
def learner(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    written = {"parts_in_lines": PARTS, "model_in_lines": MODEL}
    for name, text in written.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    yield importlib.import_module
    for name in written:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("file, name, id, line", [
    ("parts_in_lines", "Block", "B15", 21), ("model_in_lines", "Model", "B15", 16),
    ("parts_in_lines", "AddNorm", "LN2", 6),
])  # fmt: skip
def test_of_arguments_alone_the_line_is_where_the_call_begins(learner, file, name, id, line):
    found = place(id, "", getattr(learner(file), name))
    assert (Path(found.file).stem, found.line) == ("parts_in_lines", line)


TOLD = """
from torch import nn
SMALL = 1e-6
class Norm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.eps = eps
    def forward(self, x):
        return (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + self.eps).sqrt()
class Told(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.other = Other(width, 1e-3)
        self.norm = Norm(width, 1e-3)
class Named(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = Norm(width, SMALL)
class ByWord(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = Norm(width, eps=1e-8)
"""


@pytest.mark.parametrize("name, eps, line, put", [
    ("Told", "0.001", 14, []), ("Named", "1e-6", 18, []), ("Named", "1e-06", 18, []), ("Told", "1e-6", 9, []),
    ("ByWord", "1e-8", 22, ["        self.norm = Norm(width, eps=1e-5)"]),
])  # fmt: skip
def test_another_eps_is_shown_where_the_norm_is_told_it(name, eps, line, put, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "told_eps.py").write_text(TOLD, encoding="utf-8")
    found = place("LN3", eps, getattr(importlib.import_module("told_eps"), name))
    sys.modules.pop("told_eps")
    assert (found.line, found.put) == (line, put)
