"""The line to look at where nothing hides the future: the call that hands no mask on to what takes one."""

import importlib
import re
import sys

import pytest

from scratch_transformer.kit.report.lines import place

MODEL = """
import torch
from torch import nn
class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
    def forward(self, x, memory, mask=None):
        scores = self.q(x) @ self.k(memory).mT
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return scores.softmax(-1) @ self.v(memory)
class EncoderLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attention = Attention(width)
    def forward(self, x, mask=None):
        return x + self.attention(x, x, mask)
class DecoderLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.cross, self.attention = Attention(width), Attention(width)
    def forward(self, x, memory, mask=None):
        x = x + self.cross(x, memory)
        return x + self.attention(x, x, mask)
class Model(nn.Module):
    def __init__(self, width, n):
        super().__init__()
        self.encoder = EncoderLayer(width)
        self.layers = nn.ModuleList([DecoderLayer(width) for _ in range(n)])
        self.table = nn.Embedding(9, width)
    def forward(self, src, tgt):
        memory, x = self.encoder(self.table(src)), self.table(tgt)
        for layer in self.layers:
            x = layer(x, memory)
        return x
"""
OF_TORCH = MODEL.replace("DecoderLayer(width) for", "nn.TransformerDecoderLayer(width, 4) for")


@pytest.fixture
def model(tmp_path, monkeypatch):
    def made(text):
        name = f"unpassed_masks_{abs(hash(text))}"
        (tmp_path / f"{name}.py").write_text(text)
        return importlib.import_module(name).Model

    monkeypatch.syspath_prepend(tmp_path)
    yield made
    for name in [name for name in sys.modules if name.startswith("unpassed_masks_")]:
        del sys.modules[name]


PASSED = MODEL.replace("layer(x, memory)", "layer(x, memory, torch.ones(2, 2).tril())")


@pytest.mark.parametrize("text, line, fix", [
    (MODEL, "x = layer(x, memory)", "in the form that it takes"),
    (OF_TORCH, "x = layer(x, memory)", "as tgt_mask."),
    (PASSED.replace("x, x, mask)", "x, x)"), "return x + self.attention(x, x)", "in the form that it takes"),
    (PASSED, 'scores = scores.masked_fill(mask == 0, float("-inf"))', ""),
])  # fmt: skip
def test_the_call_that_hands_none_on_is_shown(text, line, fix, model):
    found = place("A25", "", model(text))
    shown = text.splitlines()[found.line - 1].strip()
    assert fix in found.fix
    assert shown == line


def test_what_is_called_an_encoder_is_shown_where_nothing_else_is(model):
    """Of a model that has nothing but nn.TransformerEncoder to hide the future with."""
    of_torch = MODEL.replace("EncoderLayer(width)\n", "nn.TransformerEncoderLayer(width, 4)\n")
    text = "\n".join(line for line in of_torch.splitlines() if not re.search(r"layer\b|layers|return x$", line))
    found = place("A25", "", model(text))
    assert text.splitlines()[found.line - 1].strip().startswith("memory, x = self.encoder(")
    assert found.fix.endswith("as src_mask.")
