"""A class that was written in a notebook's cell is checked like any other: its module has no file.

What was written several times is what was written last.
"""

import json
import sys

import pytest
import torch

from reference_tests.kit.learners.checked import check_text, reported
from scratch_transformer.kit import check
from scratch_transformer.kit.definitions import lines_of
from scratch_transformer.kit.report.finding import FINE
from scratch_transformer.kit.report.words import listing


class MyLayerNorm(torch.nn.LayerNorm):
    pass


@pytest.fixture
def in_a_cell(monkeypatch):
    monkeypatch.setattr(MyLayerNorm, "__module__", "__main__")
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    return MyLayerNorm(12)


def test_a_class_of_a_cell_is_checked(in_a_cell):
    assert check(in_a_cell, "LayerNorm").verdict == "matches the builtin"


AGAIN = """
class FeedForward(nn.Module):
    def __init__(self, conf, parts):
        super().__init__()
        self.first, self.second = parts["first"](conf.width), parts["second"](conf.width)

    def forward(self, x):
        print(x.size)
        return self.second(torch.relu(self.first(x)))


class FeedForward(nn.Module):
    def __init__(self, conf, parts):
        super().__init__()
        width, inner = conf["width"], conf["inner"]
        self.first, self.second = nn.Linear(width, inner), nn.Linear(inner, width)

    @staticmethod
    def activation(x):
        return torch.relu(x)

    def forward(self, x):
        return {}
"""


@pytest.mark.parametrize("returned, ids", [
    ("self.second(self.activation(self.first(x)))", []),
    ("self.activation(self.second(self.activation(self.first(x))))", ["B17"]),
])  # fmt: skip
def test_what_is_written_again_is_read_as_it_was_written_last(returned, ids, tmp_path):
    text = AGAIN.format(returned).replace("conf, parts", "conf")
    found = check_text(text, tmp_path)["FeedForward"]
    assert [m.id for m in found.mistakes] == ids and (found.verdict in FINE) == (not ids)
    for mistake in found.mistakes:
        assert "activation(self.second" in mistake.shown


class Twice:
    def first(self):
        return 1


First = Twice


class Twice:
    def second(self):
        return 2


def test_the_lines_of_a_class_are_those_that_its_methods_are_in():
    assert "first" in "".join(lines_of(First)[0]) and "second" in "".join(lines_of(Twice)[0])
    assert lines_of(Twice)[1] > lines_of(First)[1]


def notebook(folder, texts):
    """The path of one with a cell of code for each text."""
    path = folder / "notes.ipynb"
    cells = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": one} for one in texts]
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    return path


def test_what_stops_is_said_with_its_cell(tmp_path):
    """As the line of all cells together is in no cell that anybody sees."""
    text = "import torch\nfrom torch import nn", "# a word\n" + AGAIN.partition("\n\n\n")[0].lstrip()
    (result,) = reported(notebook(tmp_path, text)).results
    assert "(notes.ipynb, cell 2, line 5: self.first, self.second" in result.problem, result


NO_ACTIVATION = """class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
    def forward(self, x):
        return self.down(self.up(x))"""


def test_the_lines_that_are_shown_are_those_of_the_cell(tmp_path):
    """With its numbers, and without what is in the next cell."""
    texts = "import torch\nfrom torch import nn", NO_ACTIVATION, "torch.manual_seed(0)\nx = 1"
    (named,) = reported(notebook(tmp_path, texts)).results[0].mistakes
    assert (named.id, named.where) == ("B16", "notes.ipynb, cell 2, line 6")
    assert [(number, code) for _, number, code in listing(named) if number] == [
        (number, NO_ACTIVATION.splitlines()[number - 1]) for number in (4, 5, 6)
    ]


def test_of_a_notebook_that_trains_no_import_is_spoken_of(tmp_path):
    asks = "net = FeedForward(4, 8)\nnet(torch.ones(4)).sum().backward()"
    texts = "import torch\nfrom torch import nn", NO_ACTIVATION, asks
    notebook(tmp_path, texts)
    (tmp_path / "notes.py").write_text("\n".join(texts))
    of_cells, of_lines = ("".join(reported(tmp_path / f"notes.{end}").problems) for end in ("ipynb", "py"))
    assert "asks for gradients (notes.ipynb, cell 3, line 2)" in of_cells and "import" not in of_cells.split(".")[1]
    assert "it trains when it is imported (notes.py:10)" in of_lines


def test_a_notebook_may_import_a_package_of_its_own_name(tmp_path):
    """Which takes the place of no cell: what these make is there, and a function that says nothing is only unknown."""
    texts = "import torch\nimport sys\nsys.path.append('library')", "from notes.widths import WIDTH", "FACTOR = 3"
    (tmp_path / "library" / "notes").mkdir(parents=True)
    (tmp_path / "library" / "notes" / "__init__.py").write_text("")
    (tmp_path / "library" / "notes" / "widths.py").write_text("WIDTH = 4")
    path = notebook(tmp_path, [*texts, "def curious(one):\n    return torch.tanh(one) * WIDTH * FACTOR"])
    (said,) = reported(path).ignored
    assert "curious" in said and "makes" not in said
