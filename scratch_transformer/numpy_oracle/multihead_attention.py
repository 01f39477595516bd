"""Multi-head attention in the parameter layout and with the mask conventions of torch.nn.MultiheadAttention."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .arrays import Array, Cache, Gradients, Parameters, floats, parameter, require
from .attention import AttentionCache, scaled_dot_product_attention, scaled_dot_product_attention_backward
from .dropout import KeepMasks, keep_mask
from .masks import merge, merge_backward
from .modules import named_linear, named_linear_backward
from .projections import (
    extend_keys,
    extend_keys_backward,
    in_projection,
    in_projection_backward,
    merge_heads,
    split_heads,
)


class MultiheadCache(NamedTuple):
    """What `multihead_attention` remembers."""

    projected: Cache
    extended: Cache
    attended: AttentionCache
    merged: Cache
    out_projected: Cache
    layout: tuple[bool, bool]


class MultiheadGradients(NamedTuple):
    """Gradients of the three inputs, of the float masks (None for boolean ones), and of the parameters."""

    query: Array
    key: Array
    value: Array
    attn_mask: Array | None
    key_padding_mask: Array | None
    parameters: Gradients


def multihead_attention(
    query: Array,
    key: Array,
    value: Array,
    parameters: Parameters,
    num_heads: int,
    *,
    batch_first: bool = False,
    add_zero_attn: bool = False,
    attn_mask: Array | None = None,
    key_padding_mask: Array | None = None,
    dropout_p: float = 0.0,
    keep_masks: KeepMasks | None = None,
) -> tuple[tuple[Array, Array], MultiheadCache]:
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_H) W_o, head_h = Attention(Q W_q,h, K W_k,h, V W_v,h).

    Args:
        query: (T, B, E); (B, T, E) with `batch_first`; or (T, E).
        key, value: (S, B, E_k) and (S, B, E_v), laid out like `query`.
        parameters: with torch.nn.MultiheadAttention's keys: in_proj_weight (3E, E), or q_proj_weight (E, E),
            k_proj_weight (E, E_k), v_proj_weight (E, E_v); in_proj_bias (3E,); out_proj.weight (E, E);
            out_proj.bias (E,); bias_k, bias_v (1, 1, E). A bias that is absent is not added.
        num_heads: H.
        add_zero_attn: append a key and a value of zeros.
        attn_mask: (T, S) or (B·H, T, S), boolean (True = blocked) or float.
        key_padding_mask: (B, S), or (S,) unbatched, boolean (True = blocked) or float.
        dropout_p, keep_masks: the weights' dropout, with their keep-mask (B, H, T, S') under the key "".

    Returns:
        (y, weights): y laid out like `query`; weights (B, H, T, S'), after dropout, S' counting appended keys; and the
        cache for `multihead_attention_backward`. Source: Vaswani et al. 2017, section 3.2.2.

    Raises:
        ValueError: the shapes disagree.
        KeyError: a parameter or keep-mask is missing.
    """
    query, key, value = floats(query=query, key=key, value=value)
    _check(query, key, value, parameters, num_heads, batch_first)
    layout = query.ndim == 3, batch_first
    if key_padding_mask is not None and query.ndim == 2:
        key_padding_mask = np.asarray(key_padding_mask)[None]
    q_BTE, k_BSE, v_BSE = (_batch_first(x, *layout) for x in (query, key, value))
    sizes = (len(q_BTE), num_heads, q_BTE.shape[1], k_BSE.shape[1])
    mask, merged = merge(attn_mask, key_padding_mask, sizes)
    (q_BTE, k_BSE, v_BSE), projected = in_projection(q_BTE, k_BSE, v_BSE, parameters)
    (k_BSE, v_BSE, mask), extended = extend_keys(k_BSE, v_BSE, mask, parameters, add_zero_attn)
    q_BHTD, k_BHSD, v_BHSD = (split_heads(x, num_heads) for x in (q_BTE, k_BSE, v_BSE))
    keep = keep_mask(keep_masks, "", dropout_p)
    heads_BHTD, attended = scaled_dot_product_attention(
        q_BHTD, k_BHSD, v_BHSD, mask, dropout_p=0.0 if keep is None else dropout_p, keep=keep
    )
    y_BTE, out_projected = named_linear(merge_heads(heads_BHTD), parameters, "out_proj")
    cache = MultiheadCache(projected, extended, attended, merged, out_projected, layout)
    return (_undo_batch_first(y_BTE, *layout), attended.weights), cache


def multihead_attention_backward(dy: Array, cache: MultiheadCache, dweights: Array | float = 0.0) -> MultiheadGradients:
    """Walk `multihead_attention` from its last line to its first.

    Splitting and merging heads only move elements, so the gradient moves them back: the backward of `merge_heads` is
    `split_heads`, and the other way round. `dweights` (B, H, T, S') is the gradient of the returned weights.
    """
    dheads_BTE, dout_proj = named_linear_backward(_batch_first(dy, *cache.layout), cache.out_projected)
    H = cache.attended.weights.shape[1]
    dq_BHTD, dk_BHSD, dv_BHSD, dmask = scaled_dot_product_attention_backward(
        split_heads(dheads_BTE, H), cache.attended, dweights
    )
    dq_BTE, dk_BSE, dv_BSE = (merge_heads(x) for x in (dq_BHTD, dk_BHSD, dv_BHSD))
    (dk_BSE, dv_BSE, dmask), dextra = extend_keys_backward(dk_BSE, dv_BSE, dmask, cache.extended)
    dinputs, din_proj = in_projection_backward((dq_BTE, dk_BSE, dv_BSE), cache.projected)
    dquery, dkey, dvalue = (_undo_batch_first(dx, *cache.layout) for dx in dinputs)
    dattn_mask, dpadding = merge_backward(dmask, cache.merged)
    if dpadding is not None and not cache.layout[0]:
        dpadding = dpadding[0]
    return MultiheadGradients(dquery, dkey, dvalue, dattn_mask, dpadding, din_proj | dextra | dout_proj)


def _batch_first(x: Array, is_batched: bool, batch_first: bool) -> Array:
    """Bring (T, B, E), (B, T, E) or (T, E) to (B, T, E)."""
    if not is_batched:
        return x[None]
    return x if batch_first else x.swapaxes(0, 1)


def _undo_batch_first(x_BTE: Array, is_batched: bool, batch_first: bool) -> Array:
    if not is_batched:
        return x_BTE[0]
    return x_BTE if batch_first else x_BTE.swapaxes(0, 1)


def _check(query: Array, key: Array, value: Array, parameters: Parameters, num_heads: int, batch_first: bool) -> None:
    shapes = f"query {query.shape}, key {key.shape}, value {value.shape}"
    require(query.ndim in (2, 3), f"multihead_attention: query must be 2- or 3-dimensional, but: {shapes}")
    same_rank = query.ndim == key.ndim == value.ndim
    require(same_rank, f"multihead_attention: the inputs must have equally many dimensions, but: {shapes}")
    same_length = key.shape[:-1] == value.shape[:-1]
    require(same_length, f"multihead_attention: key and value must be equally long, but: {shapes}")
    batch = 0 if batch_first else 1
    same_batch = query.ndim == 2 or query.shape[batch] == key.shape[batch]
    require(same_batch, f"multihead_attention: the batch (dimension {batch}) must be the same, but: {shapes}")
    E = len(parameter(parameters, "out_proj.weight"))
    require(query.shape[-1] == E, f"multihead_attention: query's last dimension must be embed_dim={E}, but: {shapes}")
    divides = num_heads > 0 and E % num_heads == 0
    require(divides, f"multihead_attention: num_heads={num_heads} must divide embed_dim={E}")
