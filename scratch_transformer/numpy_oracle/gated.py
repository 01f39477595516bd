"""The gated feed-forward layer of language models."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from .activations import gelu, gelu_backward, relu, relu_backward, sigmoid, sigmoid_backward, silu, silu_backward
from .arrays import Array, Cache, Gradients, Parameters, require
from .modules import named_linear, named_linear_backward

Pair = tuple[Callable[[Array], tuple[Array, Cache]], Callable[[Array, Cache], Array]]

ACTIVATIONS: dict[str, Pair] = {
    "silu": (silu, silu_backward),
    "gelu": (gelu, gelu_backward),
    "gelu_tanh": (partial(gelu, approximate="tanh"), gelu_backward),
    "relu": (relu, relu_backward),
    "sigmoid": (sigmoid, sigmoid_backward),
}


def gated_feed_forward(x: Array, parameters: Parameters, activation: str = "silu") -> tuple[Array, Cache]:
    """y = W_down (g ⊙ u) with g = act(W_gate x), u = W_up x, and biases where there are any.

    Args:
        x: (..., E).
        parameters: gate_proj, up_proj (F, E) and down_proj (E, F), each with .weight and perhaps .bias.
        activation: one of `ACTIVATIONS`.

    Returns:
        (..., E), and the cache for `gated_feed_forward_backward`. Source: Shazeer 2020, equations 5 and 6.

    Raises:
        ValueError: there is no such activation.
    """
    require(activation in ACTIVATIONS, f"gated_feed_forward: activation {activation!r} is none of {list(ACTIVATIONS)}")
    inner, gated = named_linear(x, parameters, "gate_proj")
    g, activated = ACTIVATIONS[activation][0](inner)
    u, upper = named_linear(x, parameters, "up_proj")
    y, lower = named_linear(g * u, parameters, "down_proj")
    return y, (g, u, gated, activated, upper, lower, activation)


def gated_feed_forward_backward(dy: Array, cache: Cache) -> tuple[Array, Gradients]:
    """Return (dx, parameter gradients): dg = dh ⊙ u and du = dh ⊙ g for h = g ⊙ u, and x takes both ways."""
    g, u, gated, activated, upper, lower, activation = cache
    dh, of_down = named_linear_backward(dy, lower)
    dx_up, of_up = named_linear_backward(dh * g, upper)
    dx_gate, of_gate = named_linear_backward(ACTIVATIONS[activation][1](dh * u, activated), gated)
    return dx_up + dx_gate, of_gate | of_up | of_down
