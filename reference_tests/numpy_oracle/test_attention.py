import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as torchs

from reference_tests.numpy_oracle.against_torch import B, D, H, S, T, assert_close, biases, blocked, compare, normal
from reference_tests.numpy_oracle.differences import assert_is_gradient
from scratch_transformer.numpy_oracle import (
    attention_weights,
    attention_weights_backward,
    scaled_dot_product_attention,
    scaled_dot_product_attention_backward,
)

SDPA = "scaled_dot_product_attention"
WIDTH_OF_VALUES = 3


def inputs(leading=(B, H), heads_of_keys=()):
    keys = (*leading[:-1], *heads_of_keys) if heads_of_keys else leading
    return [normal(*leading, T, D), normal(*keys, S, D), normal(*keys, S, WIDTH_OF_VALUES)]


@pytest.mark.parametrize("leading", [(), (B,), (B, H), (2, B, H), (0, H)])
@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}, {"scale": -2.0}])
def test_attention_equals_torch(leading, options):
    compare(SDPA, {}, torchs, inputs(leading), options)


@pytest.mark.parametrize("shape", [(T, S), (H, T, S), (B, 1, T, S), (B, H, T, S), (B, 1, 1, S), (1, S)])
@pytest.mark.parametrize("kind", ["boolean", "float"])
def test_masks_and_the_float_masks_gradient_equal_torch(shape, kind):
    mask = ~blocked(*shape) if kind == "boolean" else biases(*shape)
    compare(SDPA, {}, torchs, inputs(), {"attn_mask": mask}, differentiable=["attn_mask"])


@pytest.mark.parametrize("kind", ["boolean", "float"])
def test_a_query_without_keys_gets_zeros_and_gives_zero_gradients(kind):
    allowed = ~blocked(T, S)
    allowed[1] = False
    mask = allowed if kind == "boolean" else normal(T, S).masked_fill(~allowed, -torch.inf)
    result = compare(SDPA, {}, torchs, inputs(), {"attn_mask": mask}, differentiable=["attn_mask"])
    assert not result.output[:, :, 1].any()
    assert not result.input_gradients[0][:, :, 1].any()


def test_no_keys_at_all_give_zeros():
    y, cache = scaled_dot_product_attention(np.ones((T, D)), np.ones((0, D)), np.ones((0, 2)))
    np.testing.assert_array_equal(y, np.zeros((T, 2)))
    dq, dk, dv, _ = scaled_dot_product_attention_backward(np.ones((T, 2)), cache)
    assert not dq.any()
    assert (dk.shape, dv.shape) == ((0, D), (0, 2))


@pytest.mark.parametrize("heads_of_keys", [1, 2, 3, 6])
@pytest.mark.parametrize("is_causal", [False, True])
def test_grouped_queries_equal_torch(heads_of_keys, is_causal):
    q, k, v = inputs((B, 6), (heads_of_keys,))
    compare(SDPA, {}, torchs, [q, k, v], {"is_causal": is_causal, "enable_gqa": True})


def test_leading_dimensions_broadcast_as_torchs():
    compare(SDPA, {}, torchs, [normal(B, H, T, D), normal(1, H, S, D), normal(1, H, S, D)])
    compare(SDPA, {}, torchs, [normal(B, 1, T, D), normal(B, H, S, D), normal(1, H, S, D)])


def test_dropout_equals_torch_where_it_drops_the_same_weights():
    q, k, _ = inputs()
    identity = torch.eye(S, dtype=torch.float64).expand(B, H, S, S)  # y = A V shows the dropped weights themselves
    seed = torch.random.get_rng_state()
    keep = (torchs(q, k, identity, dropout_p=0.4) != 0).numpy()
    assert 0 < keep.mean() < 1

    def with_the_same_seed(*args, **kwargs):
        torch.random.set_rng_state(seed)
        return torchs(*args, **kwargs)

    args = [q, k, normal(B, H, S, S)]  # values as wide as the identity: the same numbers are drawn in the same order
    options = {"dropout_p": 0.4}
    compare(SDPA, {}, with_the_same_seed, args, options, training=True, keep_masks={"": keep})


def test_huge_scores_do_not_overflow():
    q, k, v = inputs()
    compare(SDPA, {}, torchs, [1e3 * q, k, v])


def test_weights_are_rows_of_probabilities_and_blocked_keys_have_none():
    q, k, _ = (x.numpy() for x in inputs())
    allowed = ~blocked(T, S).numpy()
    weights, _ = attention_weights(q, k, allowed)
    np.testing.assert_allclose(weights.sum(axis=-1), np.ones((B, H, T)), rtol=1e-14)
    assert not weights[..., ~allowed].any()


def test_gradients_by_finite_differences():
    rng = np.random.default_rng(0)
    q, k, v, dy = (rng.normal(size=shape) for shape in [(4, 2, 3), (2, 3, 3), (2, 3, 2), (4, 2, 2)])
    mask = np.array([[0.3, -np.inf, 1.0], [-0.2, 0.5, 0.1]])
    keep = rng.uniform(size=(4, 2, 3)) < 0.7

    def forward(q=q, k=k, v=v):
        return scaled_dot_product_attention(q, k, v, mask, 0.3, enable_gqa=True, keep=keep)

    dq, dk, dv, _ = scaled_dot_product_attention_backward(dy, forward()[1])
    assert_is_gradient(dq, lambda q: forward(q=q)[0], q, dy)
    assert_is_gradient(dk, lambda k: forward(k=k)[0], k, dy)
    assert_is_gradient(dv, lambda v: forward(v=v)[0], v, dy)


def test_the_weights_own_gradients_by_finite_differences():
    rng = np.random.default_rng(0)
    q, k, bias, dweights = (rng.normal(size=shape) for shape in [(3, 4), (5, 4), (1, 5), (3, 5)])
    dq, dk, dbias = attention_weights_backward(dweights, attention_weights(q, k, bias)[1])
    assert_is_gradient(dq, lambda q: attention_weights(q, k, bias)[0], q, dweights)
    assert_is_gradient(dk, lambda k: attention_weights(q, k, bias)[0], k, dweights)
    assert_is_gradient(dbias, lambda bias: attention_weights(q, k, bias)[0], bias, dweights)


def test_a_gradient_of_the_weights_adds_to_the_outputs():
    q, k, v = (x.numpy() for x in inputs())
    dy, dweights = (normal(*shape).numpy() for shape in [(B, H, T, WIDTH_OF_VALUES), (B, H, T, S)])
    _, cache = scaled_dot_product_attention(q, k, v)
    both = scaled_dot_product_attention_backward(dy, cache, dweights)
    first = scaled_dot_product_attention_backward(dy, cache)
    second = attention_weights_backward(dweights, attention_weights(q, k)[1])
    assert_close(both[0], first[0] + second[0], "dquery")
    assert_close(both[1], first[1] + second[1], "dkey")
    assert_close(both[2], first[2], "dvalue")


Q, K = np.ones((B, H, T, D)), np.ones((B, H, S, D))


@pytest.mark.parametrize(
    ("args", "options", "message"),
    [
        ((Q, np.ones((S, D + 1)), K), {}, r"query \(3, 2, 4, 7\) and key \(5, 8\)"),
        ((np.ones(D), K, K), {}, "must be at least 2-dimensional"),
        ((Q, K, np.ones((S + 1, D))), {}, r"key \(3, 2, 5, 7\) and value \(6, 7\) .* equally long"),
        ((Q, K, K), {"attn_mask": np.ones((T, S)), "is_causal": True}, "exclude each other"),
        ((Q, K, K), {"attn_mask": np.ones((S, T))}, r"attn_mask has shape \(5, 4\), but must broadcast"),
        ((Q, K, K), {"attn_mask": np.ones((2, B, H, T, S))}, "must broadcast"),
        ((Q, K, K), {"dropout_p": 0.1}, "dropout_p=0.1 needs keep"),
        ((Q, np.ones((B, 4, S, D)), np.ones((B, 4, S, D))), {"enable_gqa": True}, "4 heads, which must divide the 2"),
        ((np.ones((T, D)), np.ones((S, D)), np.ones((S, D))), {"enable_gqa": True}, "enable_gqa needs heads"),
    ],
)
def test_bad_input_is_refused(args, options, message):
    with pytest.raises(ValueError, match=message):
        scaled_dot_product_attention(*args, **options)
