"""The table itself: complete, without repetition, and true of torch."""

import pytest
import torch

from reference_tests.proof import quiet
from scratch_transformer import nn
from scratch_transformer.conformance import COMPONENTS, Draw
from scratch_transformer.conformance.errors import raised
from scratch_transformer.conformance.run import run

every_component = pytest.mark.parametrize("component", COMPONENTS.values(), ids=COMPONENTS)
INFRASTRUCTURE = {"Module", "ModuleList", "Parameter", "init", "KeyValueCache"}


def test_every_public_class_is_in_the_table():
    assert set(nn.__all__) - INFRASTRUCTURE <= set(COMPONENTS)


@every_component
def test_names(component):
    assert component.name == component.ours.__name__ == component.builtin.__name__
    assert COMPONENTS[component.name] is component
    assert component.ours is not component.builtin


@every_component
def test_every_component_has_cases_errors_and_a_source(component):
    assert component.cases
    assert component.errors
    assert any(character.isdigit() for character in component.source), "the source should name a year"


@every_component
@pytest.mark.parametrize("kind", ["cases", "errors"])
def test_descriptions_are_unique(component, kind):
    descriptions = [item.description for item in getattr(component, kind)]
    assert all(descriptions)
    assert len(set(descriptions)) == len(descriptions)


@every_component
def test_an_error_case_says_what_the_message_must_contain(component):
    for case in component.errors:
        assert case.says, case.description
        assert all(case.says), case.description


@quiet
@every_component
def test_what_the_table_says_of_torch_is_true(component):
    """Where it says that torch doesn't raise our error, torch accepts the input or raises another one."""
    for case in component.errors:
        if not case.torch_raises:
            assert not isinstance(raised(component, component.builtin, case), case.error), case.description


@every_component
def test_cases_draw_the_same_inputs_every_time(component):
    for case in component.cases:
        first, second = (case.call(Draw(5)) for _ in range(2))
        assert first.kwargs.keys() == second.kwargs.keys()
        pairs = zip([*first.args, *first.kwargs.values()], [*second.args, *second.kwargs.values()], strict=True)
        assert all(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in pairs), case.description


@quiet
@every_component
def test_every_component_with_dropout_is_compared_while_it_drops(component):
    takes_dropout = {"Dropout", "MultiheadAttention", "CausalSelfAttention", "scaled_dot_product_attention"}
    if component.name in takes_dropout or component.name.startswith("Transformer"):
        randoms = [run(component, component.ours, case, torch.float32).is_random for case in component.cases]
        assert any(randoms)
        assert not all(randoms)


@quiet
def test_comparing_leaves_the_table_as_it_was():
    """A loss keeps the table's tensor of class weights as its own; it must not be randomised in place."""
    component = COMPONENTS["CrossEntropyLoss"]
    weighted = [case for case in component.cases if case.init.get("weight") is not None]
    before = [case.init["weight"].clone() for case in weighted]
    for case in weighted:
        run(component, component.builtin, case, torch.float64)
    assert all(torch.equal(case.init["weight"], weight) for case, weight in zip(weighted, before, strict=True))
