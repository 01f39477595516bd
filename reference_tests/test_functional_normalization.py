"""Layer, root-mean-square and batch normalization against torch.nn.functional."""

import math

import pytest
import torch
import torch.nn.functional as F

from reference_tests.agreement import assert_agree, assert_equal, differentiate
from scratch_transformer import functional

INF, NAN = math.inf, math.nan
SHAPES = {(5,): (5,), (2, 5): (5,), (2, 3, 5): (5,), (4, 2, 3): (2, 3), (0, 5): (5,)}
shapes = pytest.mark.parametrize(("shape", "normalized_shape"), SHAPES.items(), ids=str)
EXTREMES = {
    "all equal": [7.0] * 4,
    "zeros": [0.0] * 4,
    "large": [1e4, -1e4, 3.0, 0.0],
    "below eps": [1e-9, -1e-9, 0.0, 2e-9],
    "inf": [INF, 1.0, 2.0, 3.0],
    "-inf and inf": [INF, 1.0, -INF, 3.0],
    "nan": [NAN, 1.0, 2.0, 3.0],
}
extremes = pytest.mark.parametrize("values", EXTREMES.values(), ids=EXTREMES)


@pytest.fixture
def draw(device):
    return lambda *shape: torch.randn(*shape, dtype=torch.float64, device=device)


# ---- layer_norm and rms_norm ----


@shapes
@pytest.mark.parametrize("eps", [1e-5, 0.3, 0.0])
@pytest.mark.parametrize("parameters", ["none", "weight", "bias", "both"])
def test_layer_norm(shape, normalized_shape, eps, parameters, draw):
    weight = draw(*normalized_shape) if parameters in ("weight", "both") else None
    bias = draw(*normalized_shape) if parameters in ("bias", "both") else None
    assert_agree(functional.layer_norm, F.layer_norm, draw(*shape), normalized_shape, weight, bias, eps)


@shapes
@pytest.mark.parametrize("eps", [None, 1e-5, 0.3])
@pytest.mark.parametrize("has_weight", [True, False])
def test_rms_norm(shape, normalized_shape, eps, has_weight, draw):
    weight = draw(*normalized_shape) if has_weight else None
    assert_agree(functional.rms_norm, F.rms_norm, draw(*shape), normalized_shape, weight, eps)


def test_layer_norm_of_one_feature_is_the_bias(draw):
    """Its gradients are zero too; in torch they are the rounding errors of x times 1/√ε."""
    x, weight, bias = draw(3, 1), draw(1), draw(1)
    outcome = differentiate(functional.layer_norm, x, (1,), weight, bias)
    assert_equal(outcome["result"], bias.expand(3, 1))
    for gradient in outcome["gradient"][:2]:
        assert gradient.abs().max() < 1e-12
    builtin = differentiate(F.layer_norm, x, (1,), weight, bias)
    assert_equal(outcome["result"], builtin["result"], tolerance=1e-9)
    assert_equal(outcome["gradient"][2], builtin["gradient"][2])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_rms_norm_without_eps_takes_the_dtypes(dtype):
    tiny = torch.full((3,), 1e-8, dtype=dtype)
    expected = 1e-8 / math.sqrt(1e-16 + torch.finfo(dtype).eps)
    assert functional.rms_norm(tiny, (3,))[0].item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
@extremes
def test_normalization_of_extremes(name, values, draw, device):
    x = torch.tensor([values, [0.5, -1.0, 2.0, 0.0]], dtype=torch.float64, device=device)
    # 0 / √ε and 1 / √ε: with equal values the rounding errors of the mean are all that torch returns
    tolerance = 1e-9 if values == EXTREMES["below eps"] else 1e-12
    assert_agree(getattr(functional, name), getattr(F, name), x, (4,), draw(4), eps=1e-5, tolerance=tolerance)


def test_layer_norm_by_hand():
    x = torch.tensor([1.0, 3.0], dtype=torch.float64)  # mean 2, variance 1 (dividing by n; 2 dividing by n - 1)
    expected = 1 / math.sqrt(1 + 0.21)
    assert functional.layer_norm(x, (2,), eps=0.21).tolist() == pytest.approx([-expected, expected], rel=1e-15)


def test_rms_norm_by_hand():
    x = torch.tensor([1.0, 7.0], dtype=torch.float64)  # mean square 25
    assert functional.rms_norm(x, (2,), eps=11.0).tolist() == pytest.approx([1 / 6, 7 / 6], rel=1e-15)


@pytest.mark.parametrize("offset", [1e4, 1e6, 1e8])
def test_a_large_mean_costs_no_more_digits_than_in_torch(offset, draw):
    """E[x²] - E[x]² would have none left: at 1e8 its error is of the order of one."""
    x = draw(3, 257) + offset
    deviations = x.clone() - offset  # what x is after rounding, less the offset: exact
    expected = F.layer_norm(deviations, (257,))
    ours, builtin = ((f.layer_norm(x, (257,)) - expected).abs().max() for f in (functional, F))
    assert ours <= 2 * builtin + 4 * torch.finfo(x.dtype).eps * offset / 10
    assert ours < 1e-6


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_parameters_that_do_not_fit_are_refused(name, draw):
    function, x = getattr(functional, name), draw(2, 3)
    with pytest.raises(RuntimeError, match=rf"^{name}: weight must have shape normalized_shape=\(3,\), not \(2,\)"):
        function(x, (3,), draw(2))
    with pytest.raises(RuntimeError, match=rf"^{name}: x has dtype torch.float32, but weight has torch.float64"):
        function(x.float(), (3,), draw(3))


def test_a_layer_norm_bias_that_does_not_fit_is_refused(draw):
    x, weight = draw(2, 3), draw(3)
    with pytest.raises(RuntimeError, match=r"^layer_norm: bias must have shape normalized_shape=\(3,\), not \(1,\)"):
        functional.layer_norm(x, (3,), weight, draw(1))
    with pytest.raises(RuntimeError, match=r"^layer_norm: x has dtype torch.float64, but bias has torch.float32"):
        functional.layer_norm(x, (3,), weight, draw(3).float())


# ---- batch_norm ----


def our_batch_norm(x, weight=None, bias=None, eps=1e-5):
    mean, variance = functional.channel_statistics(x)
    return functional.batch_norm(x, mean, variance, weight, bias, eps)


def torch_batch_norm(x, weight=None, bias=None, eps=1e-5):
    return F.batch_norm(x, None, None, weight, bias, training=True, eps=eps)


@pytest.mark.parametrize("shape", [(7, 5), (3, 5, 4), (2, 5, 1)], ids=str)
@pytest.mark.parametrize("eps", [1e-5, 0.3])
@pytest.mark.parametrize("is_affine", [True, False])
def test_batch_norm_with_the_batchs_statistics(shape, eps, is_affine, draw):
    parameters = (draw(5), draw(5)) if is_affine else (None, None)
    assert_agree(our_batch_norm, torch_batch_norm, draw(*shape), *parameters, eps=eps)


@pytest.mark.parametrize("shape", [(7, 5), (3, 5, 4), (1, 5), (0, 5)], ids=str)
@pytest.mark.parametrize("eps", [1e-5, 0.3])
def test_batch_norm_with_running_statistics(shape, eps, draw):
    mean, variance, weight, bias = draw(5), draw(5).square() + 0.1, draw(5), draw(5)

    def ours(x, weight, bias):
        return functional.batch_norm(x, mean, variance, weight, bias, eps)

    def builtin(x, weight, bias):
        return F.batch_norm(x, mean, variance, weight, bias, eps=eps)

    assert_agree(ours, builtin, draw(*shape), weight, bias)


@pytest.mark.parametrize("name", ["mean", "variance", "weight", "bias"])
def test_batch_norm_refuses_another_dtype(name, draw):
    parameters = {what: draw(5).float() for what in ("mean", "variance", "weight", "bias")}
    parameters[name] = parameters[name].double()
    with pytest.raises(RuntimeError, match=f"^batch_norm: x has dtype torch.float32, but {name} has torch.float64"):
        functional.batch_norm(draw(3, 5).float(), **parameters)


def test_batch_norm_by_default(draw):
    x, mean, variance = draw(3, 5), draw(5), draw(5).square()
    assert_equal(functional.batch_norm(x, mean, variance), F.batch_norm(x, mean, variance))


@pytest.mark.parametrize("shape", [(7, 5), (3, 5, 4)], ids=str)
def test_channel_statistics_are_the_ones_torch_keeps(shape, draw):
    x, count = draw(*shape), math.prod(shape) // 5
    running_mean, running_var = draw(5), draw(5)
    F.batch_norm(x, running_mean, running_var, training=True, momentum=1.0)
    mean, variance = functional.channel_statistics(x)
    assert_equal(mean, running_mean)
    assert_equal(variance * count / (count - 1), running_var)  # torch keeps the unbiased variance


def test_channel_statistics_by_hand():
    x = torch.tensor([[1.0, 10.0], [3.0, 30.0]])
    mean, variance = functional.channel_statistics(x)
    assert (mean.tolist(), variance.tolist()) == ([2.0, 20.0], [1.0, 100.0])
