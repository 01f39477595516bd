"""Ours against the NumPy oracle, through the table."""

import pytest

from reference_tests.conformance import wrong
from reference_tests.conformance.wrong import case, component
from reference_tests.proof import quiet
from scratch_transformer.conformance import COMPONENTS, Component
from scratch_transformer.conformance.oracle import ORACLE, compare_oracle

CASES = [
    pytest.param(component, case, id=f"{component.name}: {case.description}")
    for component in COMPONENTS.values()
    for case in component.cases
]
REASONS = [
    "told what is dropped",
    "no derivative is known for a callable",
    "max_norm=",
    "an empty batch has no mean",
    "the is_causal hint contradicts the mask",
    "attn_mask and is_causal at once",
    "deprecated in favour of reduction",
]


def opinion(component, case):
    """The comparison with the oracle, or the reason why there is none."""
    try:
        return compare_oracle(component, case)
    except NotImplementedError as reason:
        return str(reason)


@quiet
@pytest.mark.parametrize("component, case", CASES)
def test_ours_agrees_with_the_oracle_or_it_says_why_it_cannot(component, case):
    result = opinion(component, case)
    if isinstance(result, str):
        assert any(reason in result for reason in REASONS), result
    else:
        assert result.limit == ORACLE
        assert result.passed, result


@quiet
@pytest.mark.parametrize("name", COMPONENTS)
def test_the_oracle_can_do_most_cases(name):
    component = COMPONENTS[name]
    beyond = [case.description for case in component.cases if isinstance(opinion(component, case), str)]
    assert len(beyond) <= 0.5 * len(component.cases), beyond


@pytest.mark.parametrize(
    "name, mistake, description",
    [
        ("LayerNorm", wrong.EpsOutsideTheRoot, "inflated eps"),
        ("Linear", wrong.ForgetsTheBias, "with bias"),
        ("Linear", wrong.DetachesTheBias, "with bias"),
        ("scaled_dot_product_attention", wrong.without_scale, "plain"),
    ],
)
def test_a_wrong_implementation_fails(name, mistake, description):
    assert not compare_oracle(component(name, mistake), case(name, description)).passed


def test_a_component_that_the_oracle_does_not_have():
    linear = COMPONENTS["Linear"]
    unknown = Component("Unheard", linear.ours, linear.builtin, linear.source, linear.cases)
    with pytest.raises(NotImplementedError, match="the oracle has no Unheard"):
        compare_oracle(unknown, linear.cases[0])
