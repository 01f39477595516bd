"""The line where something is settled: the stack's, the words' table, what says whether there is a bias."""

import importlib

import pytest

from scratch_transformer.kit.report.fixes import settled_by
from scratch_transformer.kit.report.lines import place

MODEL = """
import torch
from torch import nn
class Table(nn.Embedding):
    def __init__(self, words, width):
        super().__init__(words, width, padding_idx=0)
class Sides(nn.Embedding):
    def __init__(self, width):
        super().__init__(2, width, padding_idx=0)
class Index(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.index = nn.Parameter(torch.arange(width), requires_grad=False)
class Scaled(nn.Module):
    def __init__(self, width, bias):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))
        self.shift = nn.Parameter(torch.zeros(width)) if bias else None
    def forward(self, x):
        x = x * torch.rsqrt(x.var(-1, keepdim=True) + 1e-5)
        return x * self.gain if self.shift is None else x * self.gain + self.shift
class Encoder(nn.Module):
    def __init__(self, words, width, heads):
        super().__init__()
        self.others = nn.Embedding(words, width)
        self.padded = nn.Embedding(words, width, 2)
        self.sides, self.table, self.index = Sides(width), Table(words, width), Index(width)
        self.norm = Scaled(width, False)
        layer = nn.TransformerEncoderLayer(width, heads)
        self.stack = nn.TransformerEncoder(layer, 2)
    def forward(self, ids):
        x = self.table(ids) + self.sides(ids > 3)
        return self.stack(self.norm(x))
"""


@pytest.mark.parametrize("id, form, code", [
    ("B4", "pre-norm without final norms", "self.stack = nn.TransformerEncoder(layer, 2)"),
    ("E5", "Table", "super().__init__(words, width, padding_idx=0)"),
    ("E5", "self.padded", "self.padded = nn.Embedding(words, width, 2)"),
    ("LN6", "", "self.shift = nn.Parameter(torch.zeros(width)) if bias else None"),
])  # fmt: skip
def test_where_it_is_settled_is_shown(id, form, code, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "settled_here.py").write_text(MODEL)
    module = importlib.import_module("settled_here")
    shown = place(id, form, module.Encoder)
    assert MODEL.splitlines()[shown.line - 1].strip() == code


@pytest.mark.parametrize("line, name", [
    ("self.q = nn.Linear(d, d, bias=config.bias)", "config.bias"), ("self.q = nn.Linear(d, d, bias=False)", ""),
    ("self.b = nn.Parameter(torch.zeros(d)) if use_bias else None", "use_bias"),
    ("self.bias = nn.Parameter(torch.zeros(d)) if bias else None", "bias"), ("self.bias = nn.Parameter(shift)", ""),
])  # fmt: skip
def test_a_bias_that_a_setting_leaves_out_comes_back_by_that_setting(line, name):
    assert settled_by("A14", line).partition(" = ")[0] == name
    assert settled_by("LN6", line).partition(" = ")[0] == name
    assert settled_by("A19", line) == ""


OF_COPIES = """
import copy
from torch import nn
class Pile(nn.Module):
    def __init__(self, layer, count):
        super().__init__()
        self.pile = some_copies(layer, count)
    def forward(self, x):
        for layer in self.pile:
            x = layer(x)
        return x
def some_copies(layer, count):
    return nn.ModuleList(copy.deepcopy(layer) for _ in range(count))
"""


def test_where_a_stack_is_made_is_shown_and_not_what_copies_layers(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "made_of_copies.py").write_text(OF_COPIES)
    shown = place("B4", "post-norm without final norms", importlib.import_module("made_of_copies").Pile)
    assert OF_COPIES.splitlines()[shown.line - 1].strip() == "self.pile = some_copies(layer, count)"


LONG_HEAD = """
from torch import nn
class Pair(nn.Module):
    def __init__(
        self,
        layers,
        source_words,
        target_words,
        width,
        dropout=0.0,
    ):
        super().__init__()
        self.table = nn.Embedding(source_words, width)
        self.logits = nn.Linear(width, target_words, bias=False)
        self.logits.weight = self.table.weight
    def forward(self, ids):
        return self.logits(self.table(ids))
"""


def test_a_parameter_in_a_head_of_several_lines_is_shown(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "long_head.py").write_text(LONG_HEAD)
    found = place("B29", "target_words", importlib.import_module("long_head").Pair)
    assert LONG_HEAD.splitlines()[found.line - 1].strip() == "target_words,"


IN_A_CALL = """
from torch import nn
class Layer(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.attention = Attention(
            heads,
            width, width // heads,  # of each
            dropout,
        )
"""


def test_an_assert_is_put_before_the_call_that_a_line_is_in(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "in_a_call.py").write_text(IN_A_CALL)
    found = place("A19", "", importlib.import_module("in_a_call").Layer)
    assert IN_A_CALL.splitlines()[found.line - 1].strip() == found.put[1].strip() == "self.attention = Attention("
    assert found.put[0] == "        assert width % heads == 0, f'{heads=} must divide {width=}'"


NORMS = """
import torch
from torch import nn
class {name}(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.eps = eps
    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
"""


@pytest.mark.parametrize("name, put, says", [("RMSNorm", False, "None is needed"), ("LayerNorm", True, "")])
def test_the_eps_of_an_rms_norm_is_its_models(name, put, says, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / f"eps_of_{name}.py").write_text(NORMS.format(name=name))
    found = place("LN3", "1e-06", getattr(importlib.import_module(f"eps_of_{name}"), name))
    assert (bool(found.put), found.fix[: len(says)]) == (put, says)


NOTHING_DROPPED = """
from torch import nn
class SublayerConnection(nn.Module):
    def __init__(self, width, dropout):
        super().__init__()
        self.norm, self.dropout = nn.LayerNorm(width), nn.Dropout(dropout)
    def forward(self, x, sublayer):
        return x + self.dropout(sublayer(self.norm(x)))
class Layer(nn.Module):
    def __init__(self, width, dropout=0.1):
        super().__init__()
        self.attention = Attention(width, dropout=0)
        self.connections = nn.ModuleList(
            [SublayerConnection(width, dropout={told}) for _ in range(2)])
"""


@pytest.mark.parametrize("told, line, fix", [
    ("0", "[SublayerConnection(width, dropout=0) for _ in range(2)])", "Tell it how much"),
    ("dropout", "return x + self.dropout(sublayer(self.norm(x)))", ""),
])  # fmt: skip
def test_what_is_told_to_drop_nothing_is_shown_where_it_is_told(told, line, fix, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    name, text = f"nothing_dropped_{told}", NOTHING_DROPPED.format(told=told)
    (tmp_path / f"{name}.py").write_text(text)
    module = importlib.import_module(name)
    found = place("B6", "", module.Layer, [module.SublayerConnection])
    assert (text.splitlines()[found.line - 1].strip(), found.fix[: len(fix)]) == (line, fix)
