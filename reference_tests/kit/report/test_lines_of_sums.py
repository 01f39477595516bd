"""The line to look at for a residual connection: where its sum is dropped, or gets a name that is not read again."""

import importlib
import sys

import pytest

from scratch_transformer.kit.report.lines import place

LAYER = """
from torch import nn
class Layer(nn.Module):
    def __init__(self, width, heads, p):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.network = nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, width))
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.d1, self.d2 = nn.Dropout(p), nn.Dropout(p)
    def forward(self, x):
        a = self.attention(x, x, x)[0]
        a = self.d1(a)
        x = self.n1(x + a)
        f = self.d1(self.network(x))
        f = x + f
        return self.n2(f)
"""


@pytest.fixture
def layer(tmp_path, monkeypatch):
    def made(old, new):
        assert LAYER.count(old) == 1
        name = f"layer_of_sums_{abs(hash((old, new)))}"
        (tmp_path / f"{name}.py").write_text(LAYER.replace(old, new))
        return importlib.import_module(name).Layer

    monkeypatch.syspath_prepend(tmp_path)
    yield made
    for name in [name for name in sys.modules if name.startswith("layer_of_sums_")]:
        del sys.modules[name]


@pytest.mark.parametrize("old, new, line", [
    ("x = self.n1(x + a)", "x = self.d2(self.n1(x + a))", 13), ("f = x + f", "f = x + f\n        f = self.d2(f)", 16),
    ("return self.n2(f)", "f = self.n2(f)\n        return nn.functional.dropout(f, 0.1, self.training)", 17),
    ("f = x + f", "x += f\n        f = self.d2(x)", 16),
])  # fmt: skip
def test_the_dropout_of_a_sum_is_shown_and_no_sublayers(layer, old, new, line):
    assert place("B24", "", layer(old, new)).line == line


WITH_WORDS = (
    LAYER
    + """
class Words(nn.Module):
    def __init__(self, words, width, p):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(100, width)
        self.drop = nn.Dropout(p)
    def forward(self, ids):
        x = self.words(ids) + self.places.weight[: ids.size(1)]
        return self.drop(x)
class Residual(nn.Module):
    def __init__(self, width, p):
        super().__init__()
        self.norm, self.drop = nn.LayerNorm(width), nn.Dropout(p)
    def forward(self, x, inner):
        return x + self.drop(inner(self.norm(x)))
class Block(nn.Module):
    def __init__(self, width, p):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.inner1, self.inner2 = Residual(width, p), Residual(width, p)
        self.network, self.drop = nn.Linear(width, width), nn.Dropout(p)
    def forward(self, x):
        x = self.inner1(x, lambda y: self.attention(y, y, y)[0])
        x = self.inner2(x, self.network)
        return self.drop(x)
class Model(nn.Module):
    def __init__(self, words, width, p):
        super().__init__()
        self.words, self.block = Words(words, width, p), Block(width, p)
    def forward(self, ids):
        return self.block(self.words(ids))
"""
)


@pytest.mark.parametrize("given, line", [("x, mask", 12), ("x, x, x", 12), ("x, lambda y: self.attention(y)", 11)])
def test_a_sublayer_is_told_from_a_residual_connection_by_what_it_is_given(given, line, layer):
    """The first dropout is that of a sublayer's output, which may be called one; the second is that of the sum."""
    body = "a = self.d1(self.sublayer(x))\n        x = self.d2(x + a)"
    cls = layer("a = self.attention(x, x, x)[0]\n        a = self.d1(a)\n        x = self.n1(x + a)",
                body.replace("(x))", f"({given}))"))  # fmt: skip
    assert place("B24", "", cls).line == line


def test_the_dropout_of_words_is_not_shown_for_that_of_a_sum(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "words_and_sums.py").write_text(WITH_WORDS)
    module = importlib.import_module("words_and_sums")
    shown = place("B24", "", module.Model).line
    assert WITH_WORDS.splitlines()[shown - 1].strip() == "return self.drop(x)" and shown > WITH_WORDS.count("\n") - 10


@pytest.mark.parametrize("old, new, line", [
    ("        x = self.n1(x + a)\n", "        y = self.n1(x + a)\n        x = a\n", 13),
    ("        x = self.n1(x + a)\n", "        x = self.n1(x + a)\n        x = self.n1(a)\n", 13),
    ("return self.n2(f)", "return self.n2(self.network(x))", 15),
    ("x = self.n1(x + a)", "x = self.n1(a)", 13),
])  # fmt: skip
def test_the_sum_that_is_thrown_away_is_shown_else_the_norm_without_one(layer, old, new, line):
    assert place("B13", "", layer(old, new)).line == line


def test_a_norm_that_is_not_called_one_is_found_by_its_class(layer):
    assert place("B2", "", layer("x = self.n1(x + a)", "x = x + self.n1(a)")).line == 13


@pytest.mark.parametrize("old, new, line", [
    ("x = self.n1(x + a)", "x = x + a\n        self.n1(x)", 14),
    ("return self.n2(f)", "self.n2(f)\n        return f", 16),
])  # fmt: skip
def test_a_norm_whose_output_is_not_kept(old, new, line, layer):
    assert place("B14", "", layer(old, new)).line == line


AROUND_LAYERS = """
class Model(nn.Module):
    def __init__(self, words, width, heads, p):
        super().__init__()
        self.table_of_x, self.layer = nn.Embedding(words, width), Layer(width, heads, p)
        self.last_norm = nn.LayerNorm(width)
    def encode(self, x):
        x = self.table_of_x(x)
        x = self.layer(x)
        x = self.last_norm(x)
        return x
    def forward(self, x):
        return self.encode(x)
"""


def test_the_norm_of_a_sublayer_is_in_the_layer_and_not_what_gives_its_model_the_same_variable(tmp_path, monkeypatch):
    named = LAYER.replace("self.n1", "self.norm1").replace("self.n2", "self.norm2")
    (tmp_path / "layer_of_sums_in_a_model.py").write_text(named + AROUND_LAYERS)
    monkeypatch.syspath_prepend(tmp_path)
    found = place("B3", "", importlib.import_module("layer_of_sums_in_a_model").Model)
    assert found.line == 13
    del sys.modules["layer_of_sums_in_a_model"]
