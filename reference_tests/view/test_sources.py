"""Pieces of the package's source."""

import inspect

import pytest

from scratch_transformer import functional, model
from scratch_transformer.view import sources


def test_a_method_without_its_docstring_and_with_its_classs():
    found = sources.listing("scratch_transformer.model:FeedForwardBlock.forward")
    lines = inspect.getsource(model).splitlines()
    assert found["file"] == "scratch_transformer/model.py"
    assert found["text"][0].strip() == lines[found["line"] - 1].strip() == "def forward(self, x: Tensor) -> Tensor:"
    assert found["doc"].startswith("max(0, x W₁ + b₁)")
    assert len(found["html"]) == len(found["text"])


def test_a_decorated_function_is_looked_through():
    found = sources.listing("scratch_transformer.functional:layer_norm")
    assert found["text"][0].startswith("def layer_norm(")
    assert not any("Source: Ba et al." in line for line in found["text"])
    assert found["doc"] == inspect.getdoc(functional.layer_norm)
    assert '<span class="nf">layer_norm</span>' in found["html"][0]


def test_lines_are_found_by_a_fragment():
    found = sources.listing("scratch_transformer.functional:layer_norm")
    [number] = sources.marked(found, "variance =")
    assert "centred.square().mean" in found["text"][number]
    with pytest.raises(LookupError, match="layer_norm in .*functional.py has no line with 'nowhere'"):
        sources.marked(found, "nowhere")


def test_what_is_coloured_is_escaped():
    assert sources.coloured("a < b") == [
        '<span class="n">a</span> <span class="o">&lt;</span> <span class="n">b</span>'
    ]
