"""B26: attributes of what a function has just made itself, which only its class can have set."""

import importlib
import sys

import pytest

from scratch_transformer.kit.judge.stops.crashes import crash_finding

TIED = """
from torch import nn


class Words(nn.Module):
    def __init__(self, d_model, vocab_size):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model)
        KEEP

    def keep(self):
        self.NAME = self.table.weight


class Tied(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = weight


def build(d_model, vocab_size):
    source = Words(d_model, vocab_size)
    HAND
    shared = source.weight
    target = Words(d_model, vocab_size)
    target.weight = shared
    return Tied(shared)
"""


@pytest.mark.parametrize("keep, name, hand, is_named", [
    ("pass", "rows", "pass", True),
    ("pass", "weight", "pass", False),  # by a method of its own, whoever calls that
    ("str(self) and print(self)", "rows", "pass", False),
    ("pass", "rows", "str(source)", False),
])  # fmt: skip
def test_what_a_function_has_made_and_nobody_else_has_had(keep, name, hand, is_named, tmp_path, monkeypatch):
    """Another one of its class, and another class's own, are given an attribute of that name."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "tied_here", raising=False)
    text = TIED.replace("KEEP", keep).replace("NAME", name).replace("HAND", hand)
    (tmp_path / "tied_here.py").write_text(text, encoding="utf-8")
    importlib.invalidate_caches()
    with pytest.raises(AttributeError) as stopped:
        importlib.import_module("tied_here").build(4, 5)
    found = crash_finding(stopped.value)
    assert (found is not None) == is_named, found
    assert found is None or found.evidence.startswith("It reads source.weight, which nothing in Words sets.")
