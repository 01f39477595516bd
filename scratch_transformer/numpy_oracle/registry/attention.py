"""Attention components with torch's names: the function, and torch.nn.MultiheadAttention."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import Array
from ..attention import scaled_dot_product_attention, scaled_dot_product_attention_backward
from ..multihead_attention import multihead_attention, multihead_attention_backward
from . import shapes
from .component import Component, Gradients


class ScaledDotProductAttention(Component):
    """torch.nn.functional.scaled_dot_product_attention: no constructor arguments, no parameters.

    With dropout_p > 0, keep_masks[""] says which weights survive.
    """

    inputs = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")

    def forward(self, query: Array, key: Array, value: Array, **options: Any) -> Array:
        """(..., H, T, D), (..., H, S, D), (..., H, S, D_v) to (..., H, T, D_v)."""
        keep = None if self.keep_masks is None else self.keep_masks.get("")
        y, self.cache = scaled_dot_product_attention(query, key, value, keep=keep, **options)
        return y

    def backward(self, dy: Array) -> Gradients:
        """See `scaled_dot_product_attention_backward`."""
        gradients = scaled_dot_product_attention_backward(dy, self.cache)
        return dict(zip(("query", "key", "value", "attn_mask"), gradients, strict=True)), {}


class MultiheadAttention(Component):
    """torch.nn.MultiheadAttention; its output is (y, weights), as torch's."""

    inputs = (
        "query",
        "key",
        "value",
        "key_padding_mask",
        "need_weights",
        "attn_mask",
        "average_attn_weights",
        "is_causal",
    )

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
    ) -> None:
        super().__init__()
        self.num_heads, self.dropout = num_heads, dropout
        self.options = {"add_zero_attn": add_zero_attn, "batch_first": batch_first}
        kdim, vdim = (embed_dim if width is None else width for width in (kdim, vdim))
        self.shapes = shapes.multihead_attention(embed_dim, bias, kdim, vdim, add_bias_kv)

    def forward(
        self,
        query: Array,
        key: Array,
        value: Array,
        need_weights: bool = True,
        average_attn_weights: bool = True,
        is_causal: bool = False,
        **masks: Array | None,
    ) -> tuple[Array, Array | None]:
        """Return (y, weights), the weights averaged over the heads or not, None unless needed."""
        check_causal_hint(is_causal, masks.get("attn_mask"))
        how: dict[str, Any] = {**self.options, **masks, "dropout_p": self.dropout, "keep_masks": self.keep_masks}
        (y, weights), self.cache = multihead_attention(query, key, value, self.state, self.num_heads, **how)
        self.averaged, self.batched = average_attn_weights, np.ndim(query) == 3
        weights = weights.mean(axis=1) if self.averaged else weights  # (B, T, S) or (B, H, T, S)
        return y, (weights if self.batched else weights[0]) if need_weights else None

    def backward(self, dy: Any) -> Gradients:
        """See `multihead_attention_backward`; an average gives each head 1/H of its gradient."""
        dy, dweights = dy if isinstance(dy, tuple) else (dy, None)
        if dweights is None:
            dweights = 0.0
        else:
            dweights = dweights if self.batched else dweights[None]
            dweights = dweights[:, None] / self.num_heads if self.averaged else dweights
        gradients = multihead_attention_backward(dy, self.cache, dweights)
        inputs = gradients._asdict()
        return inputs, inputs.pop("parameters")


def check_causal_hint(is_causal: bool | None, mask: Array | None) -> None:
    """Refuse `is_causal` without a mask. With a mask it only hints that the mask is causal: the oracle needs no hint.

    Raises:
        ValueError: there is no mask (torch: RuntimeError).
    """
    if is_causal and mask is None:
        raise ValueError("is_causal=True is a hint about the mask and needs the mask as well, but the mask is None")
