import numpy as np
import pytest
import torch

from reference_tests.numpy_oracle.against_torch import assert_close, compare, normal, randomized
from reference_tests.numpy_oracle.differences import assert_is_gradient
from scratch_transformer.numpy_oracle import batch_norm, batch_norm_backward, updated_running_statistics

OPTIONS = [{}, {"affine": False}, {"track_running_stats": False}, {"eps": 0.3}, {"momentum": 0.7}, {"momentum": None}]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("shape", [(3, 4), (3, 4, 5)])
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_equals_torch_twice_in_a_row(shape, options, training):
    constructor = {"num_features": 4, **options}
    module = randomized(torch.nn.BatchNorm1d(**constructor)).train(training)
    for _ in range(2):
        module.zero_grad()
        result = compare("BatchNorm1d", constructor, module, [3 + 2 * normal(*shape)], training=training)
        assert bool(result.buffers) == (training and module.track_running_stats)
        for key, value in result.buffers.items():
            assert_close(value, module.state_dict()[key].double(), key)


@pytest.mark.parametrize("training", [True, False])
def test_gradients_by_finite_differences(training):
    rng = np.random.default_rng(0)
    x, mean, weight, bias, dy = (rng.normal(size=shape) for shape in [(3, 2, 4), (2,), (2,), (2,), (3, 2, 4)])
    variance = rng.uniform(0.5, 2.0, size=2)

    def forward(x, weight=weight, bias=bias):
        return batch_norm(x, mean, variance, weight, bias, training=training, eps=0.1)

    dx, dweight, dbias = batch_norm_backward(dy, forward(x)[1])
    assert_is_gradient(dx, lambda x: forward(x)[0], x, dy)
    assert_is_gradient(dweight, lambda weight: forward(x, weight=weight)[0], weight, dy)
    assert_is_gradient(dbias, lambda bias: forward(x, bias=bias)[0], bias, dy)


def test_bad_input_is_refused():
    x, C = np.ones((3, 4)), np.ones(4)
    with pytest.raises(ValueError, match=r"x must be \(B, C\) or \(B, C, T\), but has shape \(4,\)"):
        batch_norm(C, C, C)
    with pytest.raises(ValueError, match=r"weight must have the shape \(4,\), but has \(3,\)"):
        batch_norm(x, C, C, weight=np.ones(3))
    with pytest.raises(ValueError, match="eval mode needs running_mean and running_var"):
        batch_norm(x, running_mean=C)
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        batch_norm(np.ones((1, 4)), training=True)
    with pytest.raises(ValueError, match=r"running_var must have the shape \(4,\)"):
        updated_running_statistics(x, C, np.ones(3), 0.1)


def test_an_empty_batch_is_refused_in_training():
    with pytest.raises(NotImplementedError, match="an empty batch has no mean"):
        batch_norm(np.zeros((0, 3)), training=True)
