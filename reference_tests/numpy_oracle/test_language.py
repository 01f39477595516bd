"""Rotary positions, gated feed-forward and causal self-attention: gradients by finite differences, and by hand."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from reference_tests.numpy_oracle.differences import assert_is_gradient
from scratch_transformer.numpy_oracle import (
    ORACLES,
    causal_self_attention,
    causal_self_attention_backward,
    gated_feed_forward,
    gated_feed_forward_backward,
    rotary,
    rotary_backward,
    rotary_turns,
)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


# ---- Rotary positions ----


def test_every_turn_is_the_papers_formula():
    turns = rotary_turns(np.arange(5), 6, base=100.0)
    for position in range(5):
        for pair in range(3):
            angle = position / 100 ** (2 * pair / 6)
            assert turns[:, position, pair] == pytest.approx([math.cos(angle), math.sin(angle)], rel=1e-14)


@pytest.mark.parametrize(("length", "kept"), [(3.0, 1.0), (2.0, 1.0), (1.5, 0.5), (1.0, 0.0), (0.5, 0.0)])
def test_scaling_keeps_fast_pairs_and_slows_the_others(length, kept):
    """The first pair turns by one radian a position: `length` times in 2π length positions."""
    whole = {"low_frequency_factor": 1.0, "high_frequency_factor": 2.0, "original_length": 2 * np.pi * length}
    cos, sin = rotary_turns(np.array([1.0]), 8, base=100.0, scaling=SimpleNamespace(factor=4.0, **whole))
    assert math.atan2(sin[0, 0], cos[0, 0]) == pytest.approx(kept + (1 - kept) / 4)


def test_without_a_length_scaling_slows_all_pairs():
    scaling = SimpleNamespace(factor=4.0, original_length=None)
    np.testing.assert_allclose(rotary_turns(np.arange(5), 8, scaling=scaling), rotary_turns(np.arange(5) / 4, 8))


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_gradients_by_finite_differences(rng, interleaved):
    x, turns, dy = rng.normal(size=(2, 3, 5, 4)), rng.normal(size=(2, 5, 2)), rng.normal(size=(2, 3, 5, 4))
    dx, dturns = rotary_backward(dy, rotary(x, turns, interleaved)[1])
    assert_is_gradient(dx, lambda x: rotary(x, turns, interleaved)[0], x, dy)
    assert_is_gradient(dturns, lambda turns: rotary(x, turns, interleaved)[0], turns, dy)


def test_what_makes_no_pairs_is_refused():
    with pytest.raises(ValueError, match="d must be even and positive, but is 5"):
        rotary_turns(np.arange(3), 5)
    with pytest.raises(ValueError, match=r"turns \(2, 3, 2\) must be cosines and sines for the pairs of x \(3, 6\)"):
        rotary(np.ones((3, 6)), np.ones((2, 3, 2)))


# ---- Gated feed-forward ----


@pytest.mark.parametrize("activation", ["silu", "gelu", "gelu_tanh", "relu", "sigmoid"])
def test_gated_gradients_by_finite_differences(rng, activation):
    shapes = {"gate_proj": (5, 4), "up_proj": (5, 4), "down_proj": (4, 5)}
    parameters = {f"{name}.weight": rng.normal(size=shape) for name, shape in shapes.items()}
    parameters |= {f"{name}.bias": rng.normal(size=shape[0]) for name, shape in shapes.items()}
    x, dy = rng.normal(size=(3, 4)), rng.normal(size=(3, 4))
    dx, gradients = gated_feed_forward_backward(dy, gated_feed_forward(x, parameters, activation)[1])
    assert_is_gradient(dx, lambda x: gated_feed_forward(x, parameters, activation)[0], x, dy)
    for key, value in parameters.items():
        assert_is_gradient(
            gradients[key], lambda v, key=key: gated_feed_forward(x, parameters | {key: v}, activation)[0], value, dy
        )


def test_an_unknown_gate_is_refused():
    with pytest.raises(ValueError, match="activation 'swish' is none of"):
        gated_feed_forward(np.ones(2), {}, "swish")


# ---- Causal self-attention ----


def test_causal_self_attention_gradients_by_finite_differences(rng):
    E, H, G, D, T = 3, 4, 2, 2, 3
    shapes = {"q_proj": (H * D, E), "k_proj": (G * D, E), "v_proj": (G * D, E), "o_proj": (E, H * D)}
    parameters = {f"{name}.weight": rng.normal(size=shape) for name, shape in shapes.items()}
    parameters |= {"q_norm.weight": rng.normal(size=D), "k_norm.weight": rng.normal(size=D)}
    x, turns, dy = rng.normal(size=(2, T, E)), rng.normal(size=(2, T, D // 2)), rng.normal(size=(2, T, E))

    def run(x=x, turns=turns, **changed):
        return causal_self_attention(x, parameters | changed, H, G, turns=turns, query_key_norm=0.1)

    dx, dturns, gradients = causal_self_attention_backward(dy, run()[1])
    assert_is_gradient(dx, lambda x: run(x)[0], x, dy)
    assert_is_gradient(dturns, lambda turns: run(turns=turns)[0], turns, dy)
    for key, value in parameters.items():
        assert_is_gradient(gradients[key], lambda v, key=key: run(**{key: v})[0], value, dy)


def test_what_survives_dropout_is_told():
    parameters = {f"{name}_proj.weight": np.eye(2) for name in "qkvo"}
    x, keep = np.array([[[1.0, 2.0], [3.0, 4.0]]]), np.array([[[[True, False], [False, True]]]])
    run = ORACLES["CausalSelfAttention"]
    constructor = {"d_model": 2, "num_heads": 1, "dropout": 0.5}
    dropped = run(constructor, parameters, (x,), training=True, keep_masks={"": keep}).output
    np.testing.assert_allclose(dropped[0, 0], 2 * x[0, 0])  # the first token sees itself alone
    kept = run(constructor, parameters, (x,)).output
    np.testing.assert_allclose(kept[0, 0], x[0, 0])


def test_what_the_attention_of_the_oracle_does_not_do():
    parameters = {f"{name}_proj.weight": np.eye(2) for name in "qkvo"}
    with pytest.raises(NotImplementedError, match="no cache of keys and values"):
        ORACLES["CausalSelfAttention"]({"d_model": 2, "num_heads": 1}, parameters, (np.ones((1, 2, 2)), None, object()))
    with pytest.raises(ValueError, match=r"x must be \(B, T, E\), but has shape \(2, 2\)"):
        causal_self_attention(np.ones((2, 2)), parameters, 1, 1)
