import numpy as np
import pytest

from scratch_transformer.numpy_oracle import layer_norm, layer_norm_backward, linear, linear_backward
from scratch_transformer.numpy_oracle.modules import (
    named_dropout,
    named_layer_norm,
    named_layer_norm_backward,
    named_linear,
    named_linear_backward,
)

RNG = np.random.default_rng(0)
X, WEIGHT, BIAS, DY = (RNG.normal(size=shape) for shape in [(2, 3), (4, 3), (4,), (2, 4)])
GAIN, SHIFT = RNG.normal(size=(2, 3))


@pytest.mark.parametrize("bias", [BIAS, None])
def test_named_linear_is_linear_and_names_its_gradients(bias):
    parameters = {"out.weight": WEIGHT, "other.weight": X} | ({} if bias is None else {"out.bias": bias})
    y, cache = named_linear(X, parameters, "out")
    expected, expected_cache = linear(X, WEIGHT, bias)
    np.testing.assert_array_equal(y, expected)
    dx, named = named_linear_backward(DY, cache)
    expected_dx, dweight, dbias = linear_backward(DY, expected_cache)
    np.testing.assert_array_equal(dx, expected_dx)
    np.testing.assert_array_equal(named.pop("out.weight"), dweight)
    assert bias is None or np.array_equal(named.pop("out.bias"), dbias)
    assert named == {}


def test_named_layer_norm_is_layer_norm_and_names_its_gradients():
    y, cache = named_layer_norm(X, {"norm.weight": GAIN, "norm.bias": SHIFT}, "norm", 0.1)
    expected, expected_cache = layer_norm(X, (3,), GAIN, SHIFT, 0.1)
    np.testing.assert_array_equal(y, expected)
    dx, named = named_layer_norm_backward(X, cache)
    for found, wanted in zip(
        (dx, named["norm.weight"], named["norm.bias"]), layer_norm_backward(X, expected_cache), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)


def test_named_dropout_takes_the_mask_of_its_name():
    keep = np.array([[True, False, True], [False, True, True]])
    y, _ = named_dropout(X, 0.5, {"drop": keep, "other": ~keep}, "drop")
    np.testing.assert_array_equal(y, X * keep * 2)
    assert named_dropout(X, 0.5, None, "drop")[0] is X


@pytest.mark.parametrize("call", [named_linear, lambda *args: named_layer_norm(*args, 0.1)])
def test_a_missing_weight_is_named(call):
    with pytest.raises(KeyError, match="'out.weight' is missing"):
        call(X, {"out.bias": BIAS}, "out")
