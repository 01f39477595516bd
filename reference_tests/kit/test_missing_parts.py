"""A part that is missing or broken is replaced by the reference's, and the whole is judged all the same."""

import pytest

from reference_tests.kit.learners.checked import check_here, reported
from scratch_transformer.kit import checking
from scratch_transformer.kit.discover.installing import how_to_install
from scratch_transformer.kit.report import text
from scratch_transformer.kit.report.finding import FINE

pytestmark = pytest.mark.long

SOURCE = """
import torch
from torch import nn
from a_file_that_nobody_sent import MultiHeadAttention
from a_package_nobody_has import *
from beside import Positions, Missing


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, self.dmodel)

    def forward(self, x):
        return self.outer(torch.relu(self.inner(x)))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, mask):
        x = self.norm1(x + self.attention(x, x, x, mask))
        return self.norm2(x + self.feed_forward(x))


class EncoderBlock(nn.Module):
    def __init__(self, d_model, heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, heads)
        self.feed_forward = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, mask):
        attended, weights = self.attention(x, x, x, mask)
        x = self.norm1(x + attended)
        return self.norm2(x + self.feed_forward(x))


class LayerNorm(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.inside = Missing(d_model)

    def forward(self, x):
        return self.inside(x)
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    (folder / "layers.py").write_text(SOURCE, encoding="utf-8")
    (folder / "beside.py").write_text("Positions = 3\n", encoding="utf-8")
    return reported(folder / "layers.py")


def result(report, name):
    return next(result for result in report.results if result.name == name)


def test_the_whole_is_judged_and_says_what_was_put_in_place(report):
    layer = result(report, "EncoderLayer")
    assert layer.verdict == "matches the builtin", layer
    assert any("MultiHeadAttention cannot be used" in note for note in layer.limits)
    assert any("FeedForward cannot be used" in note and "dmodel" in note for note in layer.limits)


def test_what_is_put_in_place_returns_two_things_where_two_are_taken(report):
    assert result(report, "EncoderBlock").verdict == "matches the builtin", result(report, "EncoderBlock")


def test_the_broken_part_is_reported_with_its_line(report):
    part = result(report, "FeedForward")
    assert (part.verdict, part.ids) == ("mistake", ["B26"])
    assert "dmodel" in part.problem and "layers.py:13" in part.problem


def test_a_name_that_a_file_lacks_is_told_from_a_package(report):
    assert "there is no Missing in beside.py" in result(report, "LayerNorm").problem
    assert not any("pip install beside" in problem for problem in report.problems)


def test_a_file_that_a_folder_of_the_learner_lacks_is_told_from_a_package(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "__init__.py").write_text("", encoding="utf-8")
    path = tmp_path / "model" / "norm.py"
    text = "from model.embedding.tokens import Tokens\n" + SOURCE
    path.write_text(text, encoding="utf-8")
    report = reported(path)
    assert "it imports model.embedding, and there is no embedding in model/ (norm.py:1)" in report.problems[0]
    assert not any("pip install model" in problem for problem in report.problems)


def test_what_an_installed_package_lacks_is_told(tmp_path):
    path = tmp_path / "norm.py"
    path.write_text("import torch\nfrom torch.moved import Other\n" + SOURCE, encoding="utf-8")
    report = reported(path)
    assert "there is no moved in the torch that is installed (norm.py:2)" in report.problems[0]


@pytest.mark.parametrize("name, is_own", [
    ("model", True), ("utils", True), ("models_v2", True), ("my_layers", True),
    ("transformers", False), ("librosa", False), ("sklearn.metrics", False), ("datasets", False),
])  # fmt: skip
def test_what_is_called_like_a_learners_file_is_not_to_be_installed(name, is_own):
    assert ("a file of your own" in how_to_install(name), "pip install" in how_to_install(name)) == (is_own, not is_own)


ENDS = """
from torch import nn


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        exit(1)
        return self.down(self.up(x).relu())
"""


def test_a_forward_that_ends_the_program_is_the_learners(tmp_path):
    path = tmp_path / "ends.py"
    path.write_text(ENDS, encoding="utf-8")
    (network,) = reported(path).results
    assert "its forward stops with EndsTheProgram: exit() (ends.py:11: exit(1))" in network.problem, network


HOW = how_to_install("a_package_nobody_has")
NETWORK = """
from the_common_imports import *


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.inner, self.outer = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.outer(torch.relu(self.inner(x)))
"""


@pytest.mark.parametrize("more, said", [
    ("", []),
    ("import a_package_nobody_has\n", [
        "network.py: it imports names by *; assumed to be: import torch; import torch.nn as nn.",
        f"network.py: it imports a_package_nobody_has, which is not installed: {HOW} "
        "(network.py:2). Only its imports, definitions and constants were run.",
    ]),
])  # fmt: skip
def test_names_that_come_by_a_star_are_imported_and_what_is_missing_is_said_once(more, said, tmp_path):
    common = f"import torch\nimport torch.nn as nn\n{more}"
    (tmp_path / "the_common_imports.py").write_text(common, encoding="utf-8")
    (tmp_path / "network.py").write_text(NETWORK, encoding="utf-8")
    report = reported(tmp_path / "network.py")
    assert [result.verdict for result in report.results] == ["matches the builtin"]
    assert report.problems == said


OF_ANOTHER_FILE = """
import torch.nn as nn


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attention = nn.MultiheadAttention(config["embed_dim"], config["num_heads"], batch_first=True)
        STOPS

    def forward(self, x):
        return self.attention(x, x, x)[0]
"""
AROUND_IT = """
import torch
import torch.nn as nn

from parts import Block


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.tokens = nn.Embedding(config["vocab_size"], config["embed_dim"])
        self.places = nn.Embedding(config["context_length"], config["embed_dim"])
        self.blocks = nn.Sequential(*[Block(config) for _ in range(config["n_layers"])])
        self.norm = nn.LayerNorm(config["embed_dim"])
        self.head = nn.Linear(config["embed_dim"], config["vocab_size"], bias=False)

    def forward(self, idx):
        x = self.tokens(idx) + self.places(torch.arange(idx.shape[1]))
        return self.head(self.norm(self.blocks(x)))
"""


def test_a_whole_is_right_but_for_a_part_of_another_file_that_stops(tmp_path):
    """That it is not unknown, as nothing is known of the part; that it was not checked is said."""
    (tmp_path / "parts.py").write_text(OF_ANOTHER_FILE.replace("STOPS", 'raise KeyError("strange")'))
    (tmp_path / "gpt.py").write_text(AROUND_IT)
    report = reported(tmp_path / "gpt.py")
    (result,) = report.results
    assert result.verdict in FINE and result.replaced == ["Block"]
    assert any("Block cannot be used" in limit and "strange" in limit for limit in result.limits)
    assert text.sentence(report) == "No mistake in 1 component; 1 could not be checked."


def test_what_stops_a_part_of_another_file_is_named_though_no_time_was_left_for_it(tmp_path, monkeypatch):
    (tmp_path / "blocks_that_stop.py").write_text(
        OF_ANOTHER_FILE.replace("STOPS", "").replace("(x, x, x)", "(x, x, y)")
    )
    (tmp_path / "gpt.py").write_text(AROUND_IT.replace("from parts", "from blocks_that_stop"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(checking, "LEARNING_SECONDS", 0.0)
    (result,) = check_here(tmp_path / "gpt.py").values()
    assert (result.verdict, result.replaced) == ("mistake", ["Block"])
    (found,) = (one for one in result.mistakes if one.severity == "mistake")
    assert (found.id, found.shown.strip()) == ("B26", "return self.attention(x, x, y)[0]")
