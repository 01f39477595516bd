"""The comparison is itself compared: it passes what is right, and fails what is wrong."""

import dataclasses

import pytest
import torch

from reference_tests.conformance import wrong
from reference_tests.conformance.wrong import case, component
from reference_tests.proof import quiet
from scratch_transformer.conformance import COMPONENTS, compare_definition, compare_precision
from scratch_transformer.conformance.compare import BuiltinUnsupported, Equality, Precision

SDPA = "scaled_dot_product_attention"


@quiet
@pytest.mark.parametrize("name", COMPONENTS)
def test_torch_equals_itself_bitwise(name):
    for each in COMPONENTS[name].cases:
        equality = compare_definition(component(name, COMPONENTS[name].builtin), each)
        assert equality == Equality(0.0, 0.0, is_bitwise=True), each.description


@pytest.mark.parametrize("name", ["LayerNorm", "MultiheadAttention", SDPA])
def test_torch_is_as_precise_as_itself(name):
    precision = compare_precision(component(name, COMPONENTS[name].builtin), COMPONENTS[name].cases[0], torch.float16)
    assert {*precision.output_ratios, *precision.gradient_ratios} == {1.0}
    assert precision.draws == 3


WRONG = [
    ("LayerNorm", wrong.EpsOutsideTheRoot, "inflated eps"),
    ("LayerNorm", wrong.UnbiasedVariance, "one dimension"),
    ("Linear", wrong.ForgetsTheBias, "with bias"),
    (SDPA, wrong.without_scale, "plain"),
]


@pytest.mark.parametrize("name, mistake, description", WRONG)
def test_a_wrong_implementation_fails_the_definition(name, mistake, description):
    equality = compare_definition(component(name, mistake), case(name, description))
    assert not equality.passed
    assert equality.output_error > 1e-3
    assert not equality.is_bitwise


def test_right_outputs_with_wrong_gradients_fail():
    equality = compare_definition(component("Linear", wrong.DetachesTheBias), case("Linear", "with bias"))
    assert equality.output_error <= 1e-12
    assert equality.gradient_error > 0.1
    assert not equality.passed


def test_leaving_the_state_alone_that_the_builtin_changes_fails():
    with pytest.raises(AssertionError, match=r"ours produced \['output 0'\], but .*'state running_var'"):
        compare_definition(component("BatchNorm1d", wrong.NeverUpdates), case("BatchNorm1d", "training"))


def test_another_dtype_of_the_output_fails():
    precision = compare_precision(component("ReLU", wrong.InTheWrongDtype), case("ReLU", "a batch"), torch.float32)
    assert precision.output_ratio == float("inf")
    assert not precision.passed


def test_another_number_of_outputs_fails():
    with pytest.raises(AssertionError, match=r"ours produced \['output 0'\], but the other \['output 0', 'output 1'\]"):
        compare_definition(
            component("MultiheadAttention", wrong.OnlyTheFirst), case("MultiheadAttention", "self-attention")
        )


ROUNDING = [
    ("LayerNorm", wrong.RoundsAfterEveryOperation, "mean far from zero"),
    (SDPA, wrong.rounds_after_every_operation, "large scores"),
]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name, rounding, description", ROUNDING)
def test_rounding_after_every_operation_fails_in_precision_only(name, rounding, description, dtype):
    each = case(name, description)
    assert compare_definition(component(name, rounding), each).passed
    precision = compare_precision(component(name, rounding), each, dtype)
    assert not precision.passed
    assert precision.draws == 27  # bad luck was ruled out
    assert compare_precision(COMPONENTS[name], each, dtype).passed


def test_bad_luck_is_asked_again_and_passes(monkeypatch):
    """Two unlucky draws of three make the median fail; among nine they don't."""
    ratios = iter([((9.0,), (9.0,))] * 2 + [((1.0,), (1.0,))] * 7)
    monkeypatch.setattr("scratch_transformer.conformance.compare._precision_of_draw", lambda *_: next(ratios))
    precision = compare_precision(COMPONENTS["ReLU"], COMPONENTS["ReLU"].cases[0], torch.float16)
    assert precision == Precision((1.0,), (1.0,), draws=9)


def test_a_dtype_that_the_builtin_lacks_is_told_apart():
    def lacking(*args, **kwargs):
        if args[0].dtype == torch.float16:
            raise RuntimeError("\"kernel\" not implemented for 'Half'")
        return COMPONENTS[SDPA].builtin(*args, **kwargs)

    without_half = dataclasses.replace(COMPONENTS[SDPA], builtin=lacking)
    with pytest.raises(BuiltinUnsupported, match=r"builtin unsupported in torch.float16 on cpu: .kernel. not impl"):
        compare_precision(without_half, case(SDPA, "plain"), torch.float16)
    assert compare_precision(without_half, case(SDPA, "plain"), torch.bfloat16).passed


def test_another_seed_is_another_comparison():
    each = case("LayerNorm", "one dimension")
    assert compare_definition(COMPONENTS["LayerNorm"], each, seed=1).passed
    first, second = (compare_precision(COMPONENTS["LayerNorm"], each, torch.float32, seed=seed) for seed in (0, 50))
    assert first != second


def test_results_say_what_is_allowed():
    assert str(Equality(1e-3, 0.5, False)) == "relative error 1.0e-03, of gradients 5.0e-01; allowed is 1e-12"
    assert "9.00 × the builtin's own error, allowed is 2" in str(Precision((1.0, 9.0), (), 3))
    assert Precision((1.0,), (), 3).passed
    assert not Precision((1.0,), (float("inf"),), 27).passed
