import numpy as np
import pytest
import torch

from reference_tests.numpy_oracle.against_torch import compare, normal, randomized
from reference_tests.numpy_oracle.differences import assert_is_gradient
from scratch_transformer.numpy_oracle import layer_norm, layer_norm_backward, rms_norm, rms_norm_backward


@pytest.mark.parametrize("options", [{}, {"bias": False}, {"elementwise_affine": False}, {"eps": 0.3}])
@pytest.mark.parametrize("normalized_shape", [5, (4, 5)])
def test_layer_norm_equals_torch(normalized_shape, options):
    constructor = {"normalized_shape": normalized_shape, **options}
    compare("LayerNorm", constructor, randomized(torch.nn.LayerNorm(**constructor)), [3 + 2 * normal(3, 4, 5)])


@pytest.mark.parametrize("options", [{}, {"elementwise_affine": False}, {"eps": 0.3}])
@pytest.mark.parametrize("normalized_shape", [5, (4, 5)])
def test_rms_norm_equals_torch(normalized_shape, options):
    constructor = {"normalized_shape": normalized_shape, **options}
    compare("RMSNorm", constructor, randomized(torch.nn.RMSNorm(**constructor)), [3 + 2 * normal(3, 4, 5)])


@pytest.mark.parametrize("size", [1e-4, 1e-3])
def test_eps_counts_where_the_variance_is_small(size):
    constructor = {"normalized_shape": 5, "eps": 1e-6}
    compare("LayerNorm", constructor, randomized(torch.nn.LayerNorm(**constructor)), [size * normal(3, 5)])
    compare("RMSNorm", constructor, randomized(torch.nn.RMSNorm(**constructor)), [size * normal(3, 5)])


def test_gradients_by_finite_differences():
    rng = np.random.default_rng(0)
    x, weight, bias, dy = (rng.normal(size=shape) for shape in [(3, 4), (4,), (4,), (3, 4)])
    dx, dweight, dbias = layer_norm_backward(dy, layer_norm(x, (4,), weight, bias, 0.1)[1])
    assert_is_gradient(dx, lambda x: layer_norm(x, (4,), weight, bias, 0.1)[0], x, dy)
    assert_is_gradient(dweight, lambda weight: layer_norm(x, (4,), weight, bias, 0.1)[0], weight, dy)
    assert_is_gradient(dbias, lambda bias: layer_norm(x, (4,), weight, bias, 0.1)[0], bias, dy)
    dx, dweight = rms_norm_backward(dy, rms_norm(x, (4,), weight, 0.1)[1])
    assert_is_gradient(dx, lambda x: rms_norm(x, (4,), weight, 0.1)[0], x, dy)
    assert_is_gradient(dweight, lambda weight: rms_norm(x, (4,), weight, 0.1)[0], weight, dy)


@pytest.mark.parametrize("forward", [layer_norm, rms_norm])
def test_shapes_that_disagree_are_refused(forward):
    name = forward.__name__
    with pytest.raises(ValueError, match=rf"{name}: x has shape \(3, 4\), but its last dimensions must be"):
        forward(np.ones((3, 4)), (5,))
    with pytest.raises(ValueError, match=rf"{name}: x has shape \(3, 4\)"):
        forward(np.ones((3, 4)), ())
    with pytest.raises(
        ValueError, match=rf"{name}: weight must have the shape normalized_shape=\(4,\), but has \(1,\)"
    ):
        forward(np.ones((3, 4)), (4,), np.ones(1))
