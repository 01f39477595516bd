"""Components: how anybody's implementation of them is built."""

import functools

import pytest
import torch

from scratch_transformer import nn
from scratch_transformer.conformance import COMPONENTS, Component
from scratch_transformer.conformance.component import Call


def test_a_call_keeps_positions_and_names():
    call = Call(1, 2, is_causal=True)
    assert call.args == (1, 2)
    assert call.kwargs == {"is_causal": True}


def test_a_class_is_constructed():
    component = Component("Linear", nn.Linear, torch.nn.Linear, "", cases=())
    assert not component.is_function
    for factory in (component.ours, component.builtin):
        module = component.build(factory, {"in_features": 2, "out_features": 3})
        assert type(module) is factory
        assert module.out_features == 3


def test_a_function_gets_its_arguments_with_every_call():
    component = Component("power", pow, pow, "", cases=())
    assert component.is_function
    assert component.build(pow, {"exp": 3})(2) == 8


@pytest.mark.parametrize("name", ["TransformerEncoder", "TransformerDecoder"])
def test_a_stack_is_assembled_from_parts_of_its_own_library(name):
    component = COMPONENTS[name]
    init = component.cases[0].init
    for factory, library in ((component.ours, nn), (component.builtin, torch.nn)):
        stack = component.build(factory, init)
        assert type(stack) is factory
        assert type(stack.layers[0]) is getattr(library, f"{name}Layer")
        assert type(stack.norm) is library.LayerNorm


def test_a_subclass_can_stand_in():
    class Louder(nn.Linear):
        pass

    component = Component("Linear", Louder, torch.nn.Linear, "", cases=())
    assert type(component.build(Louder, {"in_features": 2, "out_features": 3})) is Louder


def test_a_partial_function_counts_as_a_function():
    assert Component("half", functools.partial(pow, exp=0.5), pow, "", cases=()).is_function
