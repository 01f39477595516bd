import numpy as np
import pytest
import torch

from reference_tests.numpy_oracle.against_torch import compare, normal
from reference_tests.numpy_oracle.differences import assert_is_gradient
from scratch_transformer.numpy_oracle import (
    gelu,
    gelu_backward,
    log_softmax,
    log_softmax_backward,
    sigmoid,
    sigmoid_backward,
    silu,
    silu_backward,
    softmax,
    softmax_backward,
)


def test_relu_equals_torch_also_at_the_kink():
    compare("ReLU", {}, torch.nn.ReLU(), [torch.cat([normal(3, 5), torch.zeros(1, 5, dtype=torch.float64)])])


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 6.0])
def test_gelu_equals_torch(approximate, scale):
    compare("GELU", {"approximate": approximate}, torch.nn.GELU(approximate), [scale * normal(4, 50)])


@pytest.mark.parametrize("scale", [1e-3, 1.0, 6.0, 1000.0])
def test_silu_equals_torch(scale):
    compare("SiLU", {}, torch.nn.SiLU(), [scale * normal(4, 50)])


@pytest.mark.parametrize("pair", [(sigmoid, sigmoid_backward), (silu, silu_backward)])
def test_logistic_gradients_by_finite_differences(pair):
    rng = np.random.default_rng(0)
    x, dy = rng.normal(size=7), rng.normal(size=7)
    forward, backward = pair
    assert_is_gradient(backward(dy, forward(x)[1]), lambda x: forward(x)[0], x, dy)


def test_sigmoid_keeps_its_digits_far_left_and_never_overflows():
    y, _ = sigmoid(np.array([-1000.0, -40.0, 40.0, 1000.0]))
    np.testing.assert_allclose(y, [0.0, np.exp(-40.0), 1.0, 1.0], rtol=1e-15)


@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("offset", [0.0, 1e3, -1e3])
def test_softmax_equals_torch(name, dim, offset):
    # a power of two as a step: x + offset is then exact, and torch sees the same numbers
    x = torch.round(3 * normal(3, 4, 5) * 1024) / 1024 + offset
    compare(name, {"dim": dim}, getattr(torch.nn, name)(dim), [x])


@pytest.mark.parametrize("pair", [(softmax, softmax_backward), (log_softmax, log_softmax_backward)])
@pytest.mark.parametrize("dim", [0, 1])
def test_softmax_gradients_by_finite_differences(pair, dim):
    rng = np.random.default_rng(0)
    x, dy = rng.normal(size=(3, 4)), rng.normal(size=(3, 4))
    forward, backward = pair
    assert_is_gradient(backward(dy, forward(x, dim)[1]), lambda x: forward(x, dim)[0], x, dy)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_gradients_by_finite_differences(approximate):
    rng = np.random.default_rng(0)
    x, dy = rng.normal(size=7), rng.normal(size=7)
    gradient = gelu_backward(dy, gelu(x, approximate)[1])
    assert_is_gradient(gradient, lambda x: gelu(x, approximate)[0], x, dy)


def test_gelu_keeps_its_digits_far_left_where_one_plus_erf_would_be_zero():
    y, _ = gelu(np.array([-10.0]))
    # -10 Φ(-10), with Φ(-10) = 7.619853024160527e-24 from tables of the normal distribution
    np.testing.assert_allclose(y, [-7.619853024160527e-23], rtol=1e-13)


def test_softmax_of_nothing_but_minus_infinity_is_nan():
    y, _ = softmax(np.array([[-np.inf, -np.inf], [-np.inf, 0.0]]))
    np.testing.assert_array_equal(y, [[np.nan, np.nan], [0.0, 1.0]])


def test_gelu_refuses_an_unknown_approximation():
    with pytest.raises(ValueError, match='approximate must be "none" or "tanh", but is \'erf\''):
        gelu(np.ones(2), "erf")


@pytest.mark.parametrize("forward", [softmax, log_softmax])
def test_softmax_refuses_a_dimension_that_is_not_there(forward):
    with pytest.raises(ValueError, match=r"dim=2 is out of range for x of shape \(3, 4\)"):
        forward(np.ones((3, 4)), 2)
