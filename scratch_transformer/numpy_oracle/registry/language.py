"""The parts of a language model, with the names and arguments of `scratch_transformer.nn`: torch.nn has none."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import Array
from ..causal_self_attention import causal_self_attention, causal_self_attention_backward
from ..gated import gated_feed_forward, gated_feed_forward_backward
from ..rotary import rotary, rotary_backward, rotary_turns
from . import shapes
from .component import Component, Gradients


class RotaryEmbedding(Component):
    """Pairs of features, turned by pos · base^(-2i/d)."""

    inputs = ("x", "positions")

    def __init__(self, d: int, base: float = 10_000.0, scaling: Any = None, interleaved: bool = False) -> None:
        super().__init__()
        self.options, self.interleaved = (d, base, scaling), interleaved

    def forward(self, x: Array, positions: Array) -> Array:
        """(B, h, L, d), and (L,) or (B, L), to (B, h, L, d)."""
        turns = rotary_turns(positions, *self.options)
        turns = turns[:, :, None] if np.ndim(positions) == 2 else turns
        y, self.cache = rotary(x, turns, self.interleaved)
        return y

    def backward(self, dy: Array) -> Gradients:
        """See `rotary_backward`."""
        dx, _ = rotary_backward(dy, self.cache)
        return {"x": dx}, {}


class GatedFeedForward(Component):
    """W_down (act(W_gate x) ⊙ W_up x)."""

    inputs = ("x",)

    def __init__(self, d_model: int, d_ff: int, activation: str = "silu", bias: bool = False) -> None:
        super().__init__()
        self.activation = activation
        self.shapes = shapes.gated_feed_forward(d_model, d_ff, bias)

    def forward(self, x: Array) -> Array:
        """(..., d_model) to the same."""
        y, self.cache = gated_feed_forward(x, self.state, self.activation)
        return y

    def backward(self, dy: Array) -> Gradients:
        """See `gated_feed_forward_backward`."""
        dx, parameters = gated_feed_forward_backward(dy, self.cache)
        return {"x": dx}, {**parameters}


class CausalSelfAttention(Component):
    """Grouped queries, normalized and turned, each attending to its past. keep_masks[""]: which weights survive."""

    inputs = ("x", "turns", "cache", "layer", "mask")

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
        bias: bool = False,
        query_key_norm: float | None = None,
        interleaved: bool = False,
        dropout: float = 0.0,
        output_bias: bool | None = None,
    ) -> None:
        super().__init__()
        G = num_heads if num_kv_heads is None else num_kv_heads
        D = d_model // num_heads if head_dim is None else head_dim
        self.heads, self.dropout = (num_heads, G), dropout
        self.options = {"query_key_norm": query_key_norm, "interleaved": interleaved}
        biases = (bias, bias if output_bias is None else output_bias)
        self.shapes = shapes.causal_self_attention(d_model, num_heads, G, D, biases, query_key_norm is not None)

    def forward(
        self, x: Array, turns: Array | None = None, cache: Any = None, layer: int = 0, mask: Array | None = None
    ) -> Array:
        """(B, L, d_model) to the same.

        Raises:
            NotImplementedError: with a cache.
        """
        if cache is not None:
            raise NotImplementedError("CausalSelfAttention: the oracle has no cache of keys and values")
        keep = None if self.keep_masks is None else self.keep_masks.get("")
        how: dict[str, Any] = {**self.options, "dropout_p": 0.0 if keep is None else self.dropout, "keep": keep}
        y, self.cache = causal_self_attention(x, self.state, *self.heads, turns=turns, mask=mask, **how)
        return y

    def backward(self, dy: Array) -> Gradients:
        """See `causal_self_attention_backward`."""
        dx, dturns, parameters = causal_self_attention_backward(dy, self.cache)
        return {"x": dx, "turns": dturns}, {**parameters}
