"""Self-attention of a language model: grouped queries, normalized and turned, each attending to its past."""

from __future__ import annotations

import numpy as np

from .arrays import Array, Cache, Gradients, Parameters, require
from .attention import scaled_dot_product_attention, scaled_dot_product_attention_backward
from .masks import causal
from .modules import named_linear, named_linear_backward, named_rms_norm, named_rms_norm_backward
from .projections import merge_heads, split_heads
from .rotary import rotary, rotary_backward


def causal_self_attention(
    x_BTE: Array,
    parameters: Parameters,
    num_heads: int,
    num_kv_heads: int,
    *,
    turns: Array | None = None,
    mask: Array | None = None,
    query_key_norm: float | None = None,
    interleaved: bool = False,
    dropout_p: float = 0.0,
    keep: Array | None = None,
) -> tuple[Array, Cache]:
    """Concat(head_1, ..., head_H) W_o, head_h = causal Attention(R(norm(x W_q,h)), R(norm(x W_k,g)), x W_v,g).

    Args:
        x_BTE: (B, T, E).
        parameters: q_proj (H D, E), k_proj and v_proj (G D, E), o_proj (E, H D), each with .weight and perhaps .bias;
            q_norm.weight and k_norm.weight (D,) with `query_key_norm`.
        num_heads, num_kv_heads: H and G; key head g serves the queries g H/G ... (g + 1) H/G - 1.
        turns: of `rotary`, (2, T, D/2) or (2, B, 1, T, D/2), or None.
        mask: which keys may be attended to besides, boolean, broadcasting to (B, H, T, T).
        query_key_norm: ε of the norms.
        dropout_p, keep: the weights' dropout, and which of them survive, (B, H, T, T).

    Returns:
        (B, T, E), and the cache for `causal_self_attention_backward`.

    Raises:
        ValueError: the shapes disagree.
        KeyError: a parameter is missing.
    """
    require(x_BTE.ndim == 3, f"causal_self_attention: x must be (B, T, E), but has shape {x_BTE.shape}")
    heads, caches = {}, {}
    for name, count in (("q", num_heads), ("k", num_kv_heads), ("v", num_kv_heads)):
        projected, linear = named_linear(x_BTE, parameters, f"{name}_proj")
        y, normed, turned = split_heads(projected, count), None, None
        if query_key_norm is not None and name != "v":
            y, normed = named_rms_norm(y, parameters, f"{name}_norm", query_key_norm)
        if turns is not None and name != "v":
            y, turned = rotary(y, turns, interleaved)
        heads[name], caches[name] = y, (linear, normed, turned)
    T = x_BTE.shape[1]
    allowed = causal(T, T) if mask is None else causal(T, T) & mask
    attended, cache = scaled_dot_product_attention(
        heads["q"], heads["k"], heads["v"], allowed, dropout_p, enable_gqa=True, keep=keep
    )
    y_BTE, out = named_linear(merge_heads(attended), parameters, "o_proj")
    return y_BTE, (caches, cache, out, num_heads)


def causal_self_attention_backward(dy: Array, cache: Cache) -> tuple[Array, Array | None, Gradients]:
    """Return (dx, dturns, parameter gradients): x takes three ways, and queries and keys share the turns."""
    caches, attended, out, num_heads = cache
    dheads_BTE, gradients = named_linear_backward(dy, out)
    dq, dk, dv, _ = scaled_dot_product_attention_backward(split_heads(dheads_BTE, num_heads), attended)
    dx, dturns = np.zeros(()), None
    for name, dhead in (("q", dq), ("k", dk), ("v", dv)):
        linear, normed, turned = caches[name]
        if turned is not None:
            dhead, more = rotary_backward(dhead, turned)
            dturns = more if dturns is None else dturns + more
        if normed is not None:
            dhead, of_norm = named_rms_norm_backward(dhead, normed)
            gradients |= of_norm
        part, of_projection = named_linear_backward(merge_heads(dhead), linear)
        dx, gradients = dx + part, gradients | of_projection
    return dx, dturns, gradients
