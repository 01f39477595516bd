"""Scaled dot-product attention, softmax(Q Kᵀ/√d_k + M) V, in two steps: the weights, and what is done with them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .activations import softmax, softmax_backward
from .arrays import Array, Cache, floats, require, sum_to
from .dropout import dropout, dropout_backward
from .masks import additive, causal


def attention_weights(
    query: Array,
    key: Array,
    attn_mask: Array | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Array, Cache]:
    """A = softmax(scale · Q Kᵀ + M), each row over the keys. A row whose keys are all blocked is zero.

    Args:
        query: Q, (..., H, T, D).
        key: K, (..., H, S, D), or (..., G, S, D) with `enable_gqa`; the leading dimensions broadcast.
        attn_mask: M, broadcastable to (..., H, T, S); boolean (True = may attend) or float.
        is_causal: query t may attend to keys 0 ... t only; excludes `attn_mask`.
        scale: 1/√D unless given.
        enable_gqa: groups of H/G neighbouring query heads share one of G key heads.

    Returns:
        A, (..., H, T, S), and the cache for `attention_weights_backward`.
        Source: Vaswani et al. 2017, section 3.2.1; Ainslie et al. 2023 for the groups.

    Raises:
        ValueError: the shapes disagree, or both `attn_mask` and `is_causal` are given.
    """
    query, key = floats(query=query, key=key)
    _check_query_and_key(query, key)
    require(attn_mask is None or not is_causal, "attention: attn_mask and is_causal=True exclude each other")
    scale = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    keys = _repeat_heads("key", key, query) if enable_gqa else key
    scores = scale * (query @ keys.swapaxes(-1, -2))  # (..., H, T, S)
    mask = causal(*scores.shape[-2:]) if is_causal else attn_mask
    if mask is not None:
        scores = _add_mask(scores, additive(mask, "may attend"))
    nowhere_to_attend = np.isneginf(scores).all(axis=-1, keepdims=True)
    weights, softmaxed = softmax(np.where(nowhere_to_attend, 0.0, scores), dim=-1)
    mask_shape = None if attn_mask is None or np.asarray(attn_mask).dtype == bool else np.shape(attn_mask)
    cache = (softmaxed, nowhere_to_attend, query, key, keys, scale, mask_shape)
    return np.where(nowhere_to_attend, 0.0, weights), cache


def attention_weights_backward(dweights: Array, cache: Cache) -> tuple[Array, Array, Array | None]:
    """Return (dquery, dkey, dattn_mask); dattn_mask is None for a boolean mask.

    The scores are s_ts = scale Σ_d q_td k_sd + m_ts, and softmax_backward gives ds from dA. Then

        dq_td = scale Σ_s ds_ts k_sd                        dQ = scale · dS K
        dk_sd = scale Σ_t ds_ts q_td                        dK = scale · dSᵀ Q
        dm_ts = ds_ts                                       summed over whatever the mask was broadcast to

    A blocked key has a = 0, hence ds = a (da - Σ da a) = 0: nothing flows through it. A row without any key is the
    constant zero, so its ds is zero too. A key head that a group shares sums the gradients of the group.
    """
    softmaxed, nowhere_to_attend, query, key, keys, scale, mask_shape = cache
    dscores = np.where(nowhere_to_attend, 0.0, softmax_backward(dweights, softmaxed))
    dquery = scale * (dscores @ keys)
    dkeys = scale * (dscores.swapaxes(-1, -2) @ query)
    dmask = None if mask_shape is None else sum_to(dscores, mask_shape)
    return sum_to(dquery, query.shape), _sum_heads(dkeys, key.shape), dmask


class AttentionCache(NamedTuple):
    """What `scaled_dot_product_attention` remembers; `weights` is A after dropout, (..., H, T, S)."""

    weights: Array
    values: Array
    value_shape: tuple[int, ...]
    softmaxed: Cache
    dropped: Cache


def scaled_dot_product_attention(
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    keep: Array | None = None,
) -> tuple[Array, AttentionCache]:
    """y = dropout(A) V with A = `attention_weights`(Q, K, ...).

    Args:
        value: V, (..., H, S, D_v), or (..., G, S, D_v) with `enable_gqa`.
        dropout_p, keep: with dropout_p > 0, `keep` (..., H, T, S) says which weights survive.
        query, key, attn_mask, is_causal, scale, enable_gqa: as in `attention_weights`.

    Returns:
        y, (..., H, T, D_v), and the cache for `scaled_dot_product_attention_backward`.
        Source: Vaswani et al. 2017, section 3.2.1, equation 1.

    Raises:
        ValueError: the shapes disagree, or dropout_p > 0 comes without `keep`.
    """
    (value,) = floats(value=value)
    require(
        value.ndim >= 2 and np.ndim(key) >= 2 and value.shape[-2] == np.shape(key)[-2],
        f"attention: key {np.shape(key)} and value {value.shape} must be at least 2-dimensional and equally long",
    )
    require(dropout_p == 0.0 or keep is not None, f"attention: dropout_p={dropout_p} needs keep, the surviving weights")
    weights, softmaxed = attention_weights(query, key, attn_mask, is_causal, scale, enable_gqa)
    weights, dropped = dropout(weights, dropout_p, keep)
    values = _repeat_heads("value", value, weights) if enable_gqa else value
    return weights @ values, AttentionCache(weights, values, value.shape, softmaxed, dropped)


def scaled_dot_product_attention_backward(
    dy: Array, cache: AttentionCache, dweights: Array | float = 0.0
) -> tuple[Array, Array, Array, Array | None]:
    """Return (dquery, dkey, dvalue, dattn_mask).

    With y_td = Σ_s a_ts v_sd:

        da_ts = Σ_d dy_td v_sd                              dA = dY Vᵀ
        dv_sd = Σ_t a_ts dy_td                              dV = Aᵀ dY

    and dA continues through dropout and `attention_weights`. Where the weights are an output as well, the gradient that
    they receive from outside, `dweights`, adds to dA.
    """
    dvalues = cache.weights.swapaxes(-1, -2) @ dy
    dA = dropout_backward(dy @ cache.values.swapaxes(-1, -2) + dweights, cache.dropped)
    dquery, dkey, dmask = attention_weights_backward(dA, cache.softmaxed)
    return dquery, dkey, _sum_heads(dvalues, cache.value_shape), dmask


def _repeat_heads(name: str, x: Array, query: Array) -> Array:
    """Give every query head its key or value head: (..., G, S, D) to (..., H, S, D), each one H/G times in a row."""
    require(x.ndim >= 3 and query.ndim >= 3, f"attention: enable_gqa needs heads, but {name} has shape {x.shape}")
    H, G = query.shape[-3], x.shape[-3]
    require(G > 0 and H % G == 0, f"attention: {name} has {G} heads, which must divide the {H} heads of query")
    return np.repeat(x, H // G, axis=-3)


def _sum_heads(dx: Array, shape: tuple[int, ...]) -> Array:
    """Undo `_repeat_heads` and broadcasting: sum the gradient over the copies of each head."""
    if len(shape) >= 3 and shape[-3] not in (1, dx.shape[-3]):
        dx = dx.reshape(*dx.shape[:-3], shape[-3], -1, *dx.shape[-2:]).sum(axis=-3)
    return sum_to(dx, shape)


def _add_mask(scores: Array, mask: Any) -> Array:
    try:
        fits = np.broadcast_shapes(scores.shape, mask.shape) == scores.shape
    except ValueError:
        fits = False
    require(fits, f"attention: attn_mask has shape {mask.shape}, but must broadcast to the scores' {scores.shape}")
    return np.asarray(scores + mask)


def _check_query_and_key(query: Array, key: Array) -> None:
    require(
        query.ndim >= 2 and key.ndim >= 2 and query.shape[-1] == key.shape[-1] > 0,
        f"attention: query {query.shape} and key {key.shape} must be at least 2-dimensional with one last dimension",
    )
