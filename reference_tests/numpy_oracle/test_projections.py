import numpy as np
import pytest

from scratch_transformer.numpy_oracle.projections import (
    extend_keys,
    extend_keys_backward,
    in_projection,
    in_projection_backward,
    merge_heads,
    split_heads,
)

B, T, S, H, D = 2, 3, 4, 5, 6
E = H * D
RNG = np.random.default_rng(0)
Q, K, V = RNG.normal(size=(B, T, E)), RNG.normal(size=(B, S, E)), RNG.normal(size=(B, S, E))


def test_heads_take_neighbouring_features_and_merge_back():
    heads = split_heads(Q, H)
    assert heads.shape == (B, H, T, D)
    for h in range(H):
        np.testing.assert_array_equal(heads[:, h], Q[:, :, h * D : (h + 1) * D])
    np.testing.assert_array_equal(merge_heads(heads), Q)


def test_a_packed_projection_is_the_three_separate_ones():
    weight, bias = RNG.normal(size=(3 * E, E)), RNG.normal(size=3 * E)
    names = ("q_proj_weight", "k_proj_weight", "v_proj_weight")
    separate = dict(zip(names, np.split(weight, 3), strict=True)) | {"in_proj_bias": bias}
    packed = {"in_proj_weight": weight, "in_proj_bias": bias}
    outputs, cache = in_projection(Q, K, V, packed)
    outputs_separate, cache_separate = in_projection(Q, K, V, separate)
    doutputs = tuple(RNG.normal(size=y.shape) for y in outputs)
    dinputs, named = in_projection_backward(doutputs, cache)
    dinputs_separate, named_separate = in_projection_backward(doutputs, cache_separate)
    for found, wanted in zip((*outputs, *dinputs), (*outputs_separate, *dinputs_separate), strict=True):
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(named["in_proj_weight"], np.concatenate([named_separate[name] for name in names]))
    np.testing.assert_array_equal(named["in_proj_bias"], named_separate["in_proj_bias"])


def test_appended_keys_may_be_attended_to_and_collect_their_gradient():
    parameters = {"bias_k": RNG.normal(size=(1, 1, E)), "bias_v": RNG.normal(size=(1, 1, E))}
    (keys, values, mask), cache = extend_keys(K, V, np.full((B, 1, 1, S), -np.inf), parameters, add_zero_attn=True)
    for b in range(B):
        np.testing.assert_array_equal(keys[b, S:], np.stack([parameters["bias_k"][0, 0], np.zeros(E)]))
        np.testing.assert_array_equal(values[b, S:], np.stack([parameters["bias_v"][0, 0], np.zeros(E)]))
    np.testing.assert_array_equal(mask[..., S:], np.zeros((B, 1, 1, 2)))
    dk, dv = RNG.normal(size=keys.shape), RNG.normal(size=values.shape)
    (dk_inner, dv_inner, dmask), named = extend_keys_backward(dk, dv, mask, cache)
    np.testing.assert_array_equal(dk_inner, dk[:, :S])
    np.testing.assert_array_equal(dv_inner, dv[:, :S])
    np.testing.assert_array_equal(dmask, mask[..., :S])
    np.testing.assert_array_equal(named["bias_k"], dk[:, S].sum(axis=0)[None, None])
    np.testing.assert_array_equal(named["bias_v"], dv[:, S].sum(axis=0)[None, None])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"bias_k": np.ones((1, 1, E))}, "bias_k and bias_v must be given together"),
        ({"bias_k": np.ones((1, 1, E)), "bias_v": np.ones(E)}, r"bias_v \(30,\) must be \(1, 1, 30\)"),
    ],
)
def test_bad_key_and_value_biases_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        extend_keys(K, V, None, parameters, add_zero_attn=False)


def test_bad_projections_are_refused():
    with pytest.raises(KeyError, match="'k_proj_weight' is missing"):
        in_projection(Q, K, V, {"q_proj_weight": np.ones((E, E))})
    with pytest.raises(ValueError, match=r"in_proj_weight must stack three parts, but has shape \(31, 30\)"):
        in_projection(Q, K, V, {"in_proj_weight": np.ones((E + 1, E))})
