"""A base that calls what only the classes of other files have which inherit from it: abstract, and no mistake (B26)."""

from reference_tests.kit.learners.checked import reported

BASE = """import torch.nn as nn


class Watched(nn.Module):
    def forward(self, *given):
        self.last = self.compute(*given)
        return self.last


class LanguageModel(Watched):
    def __init__(self, words, width):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
"""
HEIR = """from base import LanguageModel


class Bigram(LanguageModel):
    def {name}(self, ids):
        return self.embedding(ids)
"""


def test_a_method_that_the_heirs_have_is_not_missing(tmp_path):
    (tmp_path / "base.py").write_text(BASE)
    (tmp_path / "bigram.py").write_text(HEIR.format(name="compute"))
    report = reported(tmp_path / "base.py")
    assert report.results == []
    assert "LanguageModel (abstract: what inherits from it has the compute that it calls)" in report.ignored


def test_a_method_that_no_heir_has_either_is_missing(tmp_path):
    (tmp_path / "base.py").write_text(BASE)
    (tmp_path / "bigram.py").write_text(HEIR.format(name="computes"))
    (result,) = reported(tmp_path / "base.py").results
    assert (result.name, result.ids) == ("LanguageModel", ["B26"])


TYPED = """from typing import TypedDict


class Shape(TypedDict):
    width: int


"""


def test_a_file_may_have_classes_that_allow_no_questions(tmp_path):
    """Of a TypedDict nobody may ask what inherits from it."""
    (tmp_path / "base.py").write_text(TYPED + BASE)
    (tmp_path / "bigram.py").write_text(HEIR.format(name="compute"))
    assert (
        "LanguageModel (abstract: what inherits from it has the compute that it calls)"
        in reported(tmp_path / "base.py").ignored
    )
