import numpy as np
import pytest
import torch

from reference_tests.numpy_oracle.against_torch import compare, normal, randomized
from reference_tests.numpy_oracle.differences import assert_is_gradient
from scratch_transformer.numpy_oracle import embedding, embedding_backward, linear, linear_backward


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("leading", [(), (3,), (3, 4), (0,)])
def test_linear_equals_torch(leading, bias):
    constructor = {"in_features": 5, "out_features": 7, "bias": bias}
    compare("Linear", constructor, randomized(torch.nn.Linear(**constructor)), [normal(*leading, 5)])


def test_linear_gradients_by_finite_differences():
    rng = np.random.default_rng(0)
    x, weight, bias, dy = (rng.normal(size=shape) for shape in [(2, 3, 4), (5, 4), (5,), (2, 3, 5)])
    dx, dweight, dbias = linear_backward(dy, linear(x, weight, bias)[1])
    assert_is_gradient(dx, lambda x: linear(x, weight, bias)[0], x, dy)
    assert_is_gradient(dweight, lambda weight: linear(x, weight, bias)[0], weight, dy)
    assert_is_gradient(dbias, lambda bias: linear(x, weight, bias)[0], bias, dy)


@pytest.mark.parametrize("options", [{}, {"padding_idx": 2}, {"padding_idx": -3}, {"scale_grad_by_freq": True}])
def test_embedding_equals_torch(options):
    constructor = {"num_embeddings": 6, "embedding_dim": 5, **options}
    ids = torch.tensor([[2, 0, 2, 5], [3, 3, 2, 1], [5, 0, 3, 3]])  # 4 never, others up to four times
    compare("Embedding", constructor, randomized(torch.nn.Embedding(**constructor)), [ids])


def test_embedding_gradient_by_finite_differences():
    rng = np.random.default_rng(0)
    ids, weight, dy = np.array([1, 3, 1]), rng.normal(size=(4, 2)), rng.normal(size=(3, 2))
    dweight = embedding_backward(dy, embedding(ids, weight)[1])
    assert_is_gradient(dweight, lambda weight: embedding(ids, weight)[0], weight, dy)


def test_embedding_is_the_linear_map_of_one_hot_vectors():
    rng = np.random.default_rng(0)
    ids, weight, dy = np.array([[1, 3], [1, 0]]), rng.normal(size=(4, 2)), rng.normal(size=(2, 2, 2))
    y, cache = embedding(ids, weight)
    y_linear, cache_linear = linear(np.eye(4)[ids], weight.T)
    np.testing.assert_array_equal(y, y_linear)
    np.testing.assert_allclose(embedding_backward(dy, cache), linear_backward(dy, cache_linear)[1].T, rtol=1e-14)


@pytest.mark.parametrize(
    ("x", "weight", "bias", "message"),
    [
        ((2, 3), (5, 4), None, "in_features=4"),
        ((), (5, 4), None, "in_features=4"),
        ((2, 4), (4,), None, r"weight must be \(out_features, in_features\)"),
        ((2, 4), (5, 4), (4,), r"bias must have shape \(5,\), but has \(4,\)"),
    ],
)
def test_linear_refuses_shapes_that_disagree(x, weight, bias, message):
    with pytest.raises(ValueError, match=message):
        linear(np.ones(x), np.ones(weight), None if bias is None else np.ones(bias))


@pytest.mark.parametrize("ids", [[0, 4], [-1, 0]])
def test_embedding_refuses_ids_outside_the_table(ids):
    with pytest.raises(IndexError, match=r"ids must be in \[0, 4\), but range from"):
        embedding(np.array(ids), np.ones((4, 2)))


def test_embedding_refuses_ids_that_are_not_integers():
    with pytest.raises(TypeError, match="ids must be integers, but their dtype is float64"):
        embedding(np.ones(3), np.ones((4, 2)))
