"""Properties that need no oracle, under sizes, masks and flags that Hypothesis draws, on tensors of a drawn seed."""

import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from scratch_transformer.conformance import COMPONENTS, Draw
from scratch_transformer.conformance.invariants import Setting, tolerance
from scratch_transformer.conformance.invariants.setting import difference, influence

SETTINGS = st.builds(
    Setting,
    B=st.integers(1, 3),
    T=st.integers(1, 6),
    S=st.integers(1, 6),
    H=st.integers(1, 3),
    D=st.integers(1, 4),
    FF=st.integers(1, 9),
    bias=st.booleans(),
    batch_first=st.booleans(),
    norm_first=st.booleans(),
    activation=st.sampled_from(["relu", "gelu"]),
    padding=st.sampled_from(["left", "right"]),
    additive=st.booleans(),
    need_weights=st.booleans(),
)
SEEDS = st.integers(0, 2**32 - 1)
INVARIANTS = [
    pytest.param(component, invariant, id=f"{component.name}: {invariant.name}")
    for component in COMPONENTS.values()
    for invariant in component.invariants
]


@pytest.mark.parametrize("component, invariant", INVARIANTS)
@settings(max_examples=12)
@given(setting=SETTINGS, seed=SEEDS)
def test_ours_has_the_property(component, invariant, device, dtype, setting, seed):
    if dtype.itemsize == 2:
        pytest.skip("where x + c rounds to c, an equation about x + c says nothing")
    draw = Draw(seed, dtype, str(device))
    assert component.violation(invariant, component.ours, draw, setting) <= tolerance(dtype)


@pytest.mark.parametrize("component, invariant", INVARIANTS)
def test_the_builtin_has_the_property(component, invariant):
    """An equation that torch violates would be a wrong equation, or a surprise of torch's that the table must name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says which of its fast paths it does not take
        violation = component.violation(invariant, component.builtin, Draw(1))
    assert (violation <= tolerance()) == invariant.torch_holds


def test_every_component_has_invariants():
    assert [name for name, component in COMPONENTS.items() if not component.invariants] == []


def test_every_invariant_states_its_equation():
    assert [i.name for c in COMPONENTS.values() for i in c.invariants if not i.error.__doc__] == []


# ---- The two measures ----


def test_difference_is_relative_to_the_largest_number_or_one():
    assert difference(torch.tensor([8.0, 1.0]), torch.tensor([8.0, 2.0])) == 1 / 8
    assert difference(torch.tensor([0.25]), 0.0) == 0.25


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
def test_difference_is_infinite_for_what_is_no_number(wrong):
    assert difference(torch.tensor([1.0, wrong]), torch.tensor([1.0, wrong])) == torch.inf


def test_influence_sees_an_output_that_depends_on_a_hidden_entry():
    x, hidden = Draw(0).normal(4), torch.tensor([False, False, True, False])
    assert influence(lambda x: x[:2].square(), (x,), (hidden,)) == 0
    assert influence(lambda x: x.square(), (x,), (hidden,)) > 0.1


def test_influence_sees_a_gradient_where_the_output_is_the_same():
    """x - x.detach() is zero, whatever x is, but has a gradient."""
    x, hidden = Draw(0).normal(4), torch.tensor([False, False, True, False])
    assert influence(lambda x: x - x.detach(), (x,), (hidden,)) > 0.1


def test_influence_sees_nan():
    x, hidden = Draw(0).normal(4), torch.tensor([False, False, True, False])
    assert influence(lambda x: x.masked_fill(hidden, 0) * torch.where(x > 100, torch.nan, 1.0), (x,), (hidden,)) > 0.1
