"""From the inputs of multi-head attention to its heads: projections, appended keys, and the split into heads.

Parameters have torch.nn.MultiheadAttention's names: W_q, W_k and W_v are one packed `in_proj_weight` (3E, E) where all
inputs have width E, and three matrices where keys or values have another width.
"""

from __future__ import annotations

import numpy as np

from .arrays import Array, Cache, Gradients, Parameters, floats, parameter, require
from .linear import linear, linear_backward

SEPARATE = ("q_proj_weight", "k_proj_weight", "v_proj_weight")
PACKED = "in_proj_weight"
Triple = tuple[Array, Array, Array]


def in_projection(q_BTE: Array, k_BSE: Array, v_BSE: Array, parameters: Parameters) -> tuple[Triple, Cache]:
    """Q = query W_qᵀ + b_q, K = key W_kᵀ + b_k, V = value W_vᵀ + b_v.

    Returns:
        (Q (B, T, E), K (B, S, E), V (B, S, E)), and the cache for `in_projection_backward`.

    Raises:
        KeyError: a weight is missing.
        ValueError: the shapes disagree.
    """
    packed = PACKED in parameters
    weights = _thirds(PACKED, parameters[PACKED]) if packed else [parameter(parameters, name) for name in SEPARATE]
    bias = parameters.get("in_proj_bias")
    biases = [None] * 3 if bias is None else _thirds("in_proj_bias", bias)
    inputs = (q_BTE, k_BSE, v_BSE)
    outputs = [linear(x, weight, b) for x, weight, b in zip(inputs, weights, biases, strict=True)]
    (Q, q_cache), (K, k_cache), (V, v_cache) = outputs
    return (Q, K, V), (packed, q_cache, k_cache, v_cache)


def in_projection_backward(doutputs: Triple, cache: Cache) -> tuple[Triple, Gradients]:
    """Return ((dquery, dkey, dvalue), parameter gradients): three times `linear_backward`.

    A packed weight is its three parts below each other, and so is its gradient.
    """
    packed, *caches = cache
    gradients = [linear_backward(dy, cache) for dy, cache in zip(doutputs, caches, strict=True)]
    (dq, dW_q, db_q), (dk, dW_k, db_k), (dv, dW_v, db_v) = gradients
    dweights = (dW_q, dW_k, dW_v)
    named = {PACKED: np.concatenate(dweights)} if packed else dict(zip(SEPARATE, dweights, strict=True))
    if db_q is not None and db_k is not None and db_v is not None:
        named["in_proj_bias"] = np.concatenate((db_q, db_k, db_v))
    return (dq, dk, dv), named


def extend_keys(
    k_BSE: Array, v_BSE: Array, mask: Array | None, parameters: Parameters, add_zero_attn: bool
) -> tuple[tuple[Array, Array, Array | None], Cache]:
    """Append a learned key and value (bias_k, bias_v), then a zero key and value, as far as asked for.

    Every query may attend to what is appended: the mask grows by zeros.

    Returns:
        (keys, values, mask), the keys S' = S + 0, 1 or 2 long, and the cache for `extend_keys_backward`.

    Raises:
        ValueError: one of bias_k and bias_v comes alone, or has another shape than (1, 1, E).
    """
    B, S, E = k_BSE.shape
    bias_k, bias_v = floats(bias_k=parameters.get("bias_k"), bias_v=parameters.get("bias_v"))
    require((bias_k is None) == (bias_v is None), "multihead_attention: bias_k and bias_v must be given together")
    extra_k, extra_v = [k_BSE], [v_BSE]
    if bias_k is not None:
        fits = bias_k.shape == bias_v.shape == (1, 1, E)
        require(fits, f"multihead_attention: bias_k {bias_k.shape} and bias_v {bias_v.shape} must be (1, 1, {E})")
        extra_k.append(np.broadcast_to(bias_k, (B, 1, E)))
        extra_v.append(np.broadcast_to(bias_v, (B, 1, E)))
    if add_zero_attn:
        extra_k.append(np.zeros((B, 1, E)))
        extra_v.append(np.zeros((B, 1, E)))
    if mask is not None:
        mask = np.concatenate([mask, np.zeros((*mask.shape[:-1], len(extra_k) - 1))], axis=-1)
    return (np.concatenate(extra_k, axis=1), np.concatenate(extra_v, axis=1), mask), (S, bias_k is not None)


def extend_keys_backward(
    dk_BSE: Array, dv_BSE: Array, dmask: Array | None, cache: Cache
) -> tuple[tuple[Array, Array, Array | None], Gradients]:
    """Return ((dkeys, dvalues, dmask) of the first S keys, gradients of bias_k and bias_v).

    bias_k stands behind the S keys of every batch element, so its gradient is key S's, summed over the batch. The zeros
    are constants.
    """
    S, has_bias = cache
    named = {}
    if has_bias:
        named["bias_k"] = dk_BSE[:, S : S + 1].sum(axis=0, keepdims=True)
        named["bias_v"] = dv_BSE[:, S : S + 1].sum(axis=0, keepdims=True)
    return (dk_BSE[:, :S], dv_BSE[:, :S], None if dmask is None else dmask[..., :S]), named


def split_heads(x_BTE: Array, num_heads: int) -> Array:
    """(B, T, E) to (B, H, T, D): head h takes the features hD ... (h+1)D - 1 of every position."""
    B, T, E = x_BTE.shape
    return x_BTE.reshape(B, T, num_heads, E // num_heads).swapaxes(1, 2)


def merge_heads(x_BHTD: Array) -> Array:
    """(B, H, T, D) to (B, T, E): the inverse of `split_heads`."""
    B, H, T, D = x_BHTD.shape
    return x_BHTD.swapaxes(1, 2).reshape(B, T, H * D)


def _thirds(name: str, packed: Array) -> list[Array]:
    require(len(packed) % 3 == 0, f"multihead_attention: {name} must stack three parts, but has shape {packed.shape}")
    return np.split(np.asarray(packed), 3)
