"""Classes that Python cannot define, and decorators that stop: what is said of them, and of what is made of them.

And what is meant by a parameter that takes a tokenizer.
"""

import sys

import pytest
from torch import nn

from reference_tests.kit.learners.checked import reported, written
from scratch_transformer.kit.definitions import parameters_of
from scratch_transformer.kit.report.text import sentence
from scratch_transformer.kit.resolve.build import options
from scratch_transformer.kit.resolve.build.reading import uses_of
from scratch_transformer.kit.resolve.build.values import Values

IMPORTS = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n"
NETWORK = """
class FeedForward(nn.Module()):
    def __init__(self, width, inner):
        super().__init__()
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x):
        return self.down(F.relu(self.up(x)))
"""
LAYER = """
class EncoderLayer(nn.Module):
    def __init__(self, width, heads, inner):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.network = FeedForward(width, inner)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        x = self.norm1(x + self.attention(x, x, x)[0])
        return self.norm2(x + self.network(x))
"""


def checked(text, folder, name=""):
    path = written(text, folder)
    return reported(f"{path}:{name}" if name else path)


@pytest.mark.long
@pytest.mark.parametrize("base, said", [
    ("nn.Module()", "without brackets"), ("torch.Module", "which torch does not have"),
])  # fmt: skip
def test_a_base_that_is_none_is_said_of_the_class_and_of_what_is_made_of_it(base, said, tmp_path):
    report = checked(NETWORK.replace("nn.Module()", base) + LAYER, tmp_path)
    found = {result.name: result for result in report.results}
    (mistake,) = found["FeedForward"].mistakes
    assert (mistake.id, mistake.put) == ("B26", ["class FeedForward(nn.Module):"])
    assert said in mistake.evidence and mistake.shown == f"class FeedForward({base}):"
    assert (found["EncoderLayer"].verdict, found["EncoderLayer"].inherited) == ("mistake", ["B26"])
    assert report.status() == 1


@pytest.mark.long
def test_a_class_that_cannot_be_defined_for_another_reason_is_no_part_that_is_well(tmp_path):
    others = NETWORK.replace("nn.Module()", "Nowhere") + NETWORK.replace("FeedForward(nn.Module()", "Unheard(Nowhere")
    report = checked(LAYER.replace("FeedForward(width, inner)", "nn.Linear(width, width)") + others, tmp_path)
    found = {result.name: result for result in report.results}
    assert found["FeedForward"].verdict == "could not be defined" and "Nowhere" in found["FeedForward"].problem
    assert "1 could not be checked" in sentence(report) or "mistake" in found["EncoderLayer"].verdict
    assert any(name.startswith("Unheard (Python could not define it: NameError") for name in report.ignored)


@pytest.mark.long
def test_one_that_is_asked_for_is_told_of_alone(tmp_path):
    assert [result.name for result in checked(NETWORK + LAYER, tmp_path, "FeedForward").results] == ["FeedForward"]


MADE_ELSEWHERE = """
from collections import namedtuple
from absent_package import Thing


class FeedForward(namedtuple("Sizes", "width inner")):
    def __call__(self, x):
        raise ValueError


class Encoder(FeedForward, metaclass=Thing):
    pass
"""


@pytest.mark.long
def test_what_makes_a_class_may_be_called(tmp_path):
    assert not any(result.ids for result in checked(MADE_ELSEWHERE, tmp_path).results)


DECORATED = """
def only_known_types(function):
    if "self" in function.__annotations__:
        raise TypeError("self may not be annotated")
    return function


class FeedForward(nn.Module):
    @only_known_types
    def __init__(self: "FeedForward", width: int, inner: int):
        super().__init__()
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    @only_known_types
    def forward(self, x):
        return self.down(F.relu(self.up(x)))
"""


@pytest.mark.long
def test_a_decorator_of_a_method_that_stops_is_left_out(tmp_path):
    report = checked(DECORATED, tmp_path)
    assert [(result.name, result.verdict) for result in report.results] == [("FeedForward", "matches the builtin")]
    (said,) = [problem for problem in report.problems if "left out" in problem]
    assert "the decorator only_known_types was left out (learner.py:15), as it stops: TypeError" in said


OF_A_LIBRARY = """
import numpy


class Tokenizer:
    def __call__(self, text):
        return numpy.array([1, 2])
"""
TOLD_A_TOKENIZER = """
from __future__ import annotations
from tokenizing_for_tests import Tokenizer


class Embedding:
    def __init__(self, output_tokenizer: Tokenizer):
        pass
"""


@pytest.fixture
def library(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "tokenizing_for_tests.py").write_text(OF_A_LIBRARY)
    (folder / "told_for_tests.py").write_text(TOLD_A_TOKENIZER)
    monkeypatch.syspath_prepend(folder)
    yield
    for name in ("tokenizing_for_tests", "told_for_tests"):
        sys.modules.pop(name, None)


def test_a_class_of_a_library_that_computes_with_numpy_is_no_module_of_the_learners(library):
    from tokenizing_for_tests import Tokenizer
    from told_for_tests import Embedding

    (parameter,) = parameters_of(Embedding)
    assert parameter.annotation is Tokenizer


class OfWords(nn.Module):
    def __init__(self, output_tokenizer):
        super().__init__()
        self.table = nn.Embedding(len(output_tokenizer), 12)


def test_an_output_tokenizer_is_measured_and_no_flag():
    (parameter,) = parameters_of(OfWords)
    wish = options.wish(parameter, uses_of(OfWords)["output_tokenizer"], OfWords, {})
    (given,) = options.options(wish, Values({"tgt_vocab_size": 11}, {}), lambda name: [])
    assert len(given) == 11


OF_DATA = """
from a_package_nobody_has import words_of

text = open("a_text_that_is_not_there.txt").read()
letters = sorted(set(text))


class Projection(nn.Module):
    def __init__(self, width, vocab_size=DEFAULT):
        super().__init__()
        self.out = nn.Linear(width, vocab_size)

    def forward(self, x):
        return self.out(SAID)


def causal_mask(size=DEFAULT):
    return torch.ones(size, size).tril()
"""


@pytest.mark.long
@pytest.mark.parametrize("default", ["len(letters)", "len(words_of)", "words_of(text)", "letters"])
def test_a_default_that_the_file_makes_of_what_is_not_there_is_left_open(default, tmp_path):
    text = OF_DATA.replace("DEFAULT", default)
    report = checked(text.replace("SAID", "x"), tmp_path)
    assert {one.name: one.verdict for one in report.results} == dict.fromkeys(
        ("Projection", "causal_mask"), "matches the builtin"
    )
    report = checked(text.replace("SAID", "x.softmax(1)"), tmp_path)
    assert {one.name: one.verdict for one in report.results}["Projection"] != "matches the builtin"


@pytest.mark.long
@pytest.mark.parametrize("default", ["len(nothing)", "len(3)"])
def test_a_default_that_stops_wherever_the_file_is_run_is_none(default, tmp_path):
    report = checked(OF_DATA.replace("DEFAULT", default).replace("SAID", "x"), tmp_path)
    assert [(one.name, one.verdict) for one in report.results] == [("Projection", "could not be defined")]
