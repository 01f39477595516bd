"""A class that was written in a notebook's cell is checked like any other: its module has no file."""

import sys

import pytest
import torch

from scratch_transformer.kit import check


class MyLayerNorm(torch.nn.LayerNorm):
    pass


@pytest.fixture
def in_a_cell(monkeypatch):
    monkeypatch.setattr(MyLayerNorm, "__module__", "__main__")
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    return MyLayerNorm(12)


def test_a_class_of_a_cell_is_checked(in_a_cell):
    assert check(in_a_cell, "LayerNorm").verdict == "matches the builtin"
