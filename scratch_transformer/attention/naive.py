"""Attention as the paper writes it: softmax(Q Kᵀ / √d_k) V, with the whole T × S matrix of weights in memory.

Shapes: B batch, H heads, T queries, S keys, D = d_k width of a query or key, Dv width of a value.
"""

from __future__ import annotations

import math

from torch import Tensor

from scratch_transformer import functional, masks
from scratch_transformer.by_hand import are_taken, differentiated_by
from scratch_transformer.by_hand.attention import Attention
from scratch_transformer.precision import rounded_once

__all__ = ["attention_weights", "naive_attention", "repeat_heads", "run", "unsupported"]


@rounded_once
def attention_weights(
    query_BHTD: Tensor,
    key_BHSD: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """A = softmax(Q Kᵀ · scale + mask), row by row: (B, H, T, S). Scale is 1/√d_k unless given.

    Row t says how much query t takes from each key; it sums to one. A row in which everything is masked is zero.
    Source: Vaswani et al. 2017, section 3.2.1, equation 1 without V.
    """
    T, S, D = query_BHTD.shape[-2], key_BHSD.shape[-2], query_BHTD.shape[-1]
    if is_causal:
        attn_mask = masks.combine(masks.causal(T, S, query_BHTD.device), attn_mask)
    scale = 1 / math.sqrt(D) if scale is None else scale
    scores_BHTS = masks.apply((query_BHTD * scale) @ key_BHSD.transpose(-2, -1), attn_mask)
    if attn_mask is None:
        return functional.softmax(scores_BHTS, dim=-1)
    # softmax of a row of -inf alone would be 0/0: such a row becomes zero, and so does its gradient
    empty_BHT1 = (scores_BHTS == float("-inf")).all(dim=-1, keepdim=True)
    weights_BHTS = functional.softmax(scores_BHTS.masked_fill(empty_BHT1, 0), dim=-1)
    return weights_BHTS.masked_fill(empty_BHT1, 0)


@rounded_once
def naive_attention(
    query_BHTD: Tensor,
    key_BHSD: Tensor,
    value_BHSDv: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """dropout(A) V with A = `attention_weights`: (B, H, T, Dv). Vaswani et al. 2017, section 3.2.1, equation 1."""
    T, S = query_BHTD.shape[-2], key_BHSD.shape[-2]
    if is_causal and attn_mask is not None:
        attn_mask, is_causal = masks.combine(masks.causal(T, S, query_BHTD.device), attn_mask), False
    scale = 1 / math.sqrt(query_BHTD.shape[-1]) if scale is None else scale
    if _is_by_hand(query_BHTD, key_BHSD, value_BHSDv, attn_mask):
        factors = None
        if dropout_p != 0:
            factors = functional.dropout_factors(query_BHTD.new_empty(*query_BHTD.shape[:-1], S), dropout_p)
        return _attended(query_BHTD, key_BHSD, value_BHSDv, attn_mask, factors, scale, is_causal)
    weights_BHTS = attention_weights(query_BHTD, key_BHSD, attn_mask, is_causal, scale)
    return functional.dropout(weights_BHTS, dropout_p) @ value_BHSDv


@differentiated_by(Attention)
def _attended(
    query_BHTD: Tensor, key_BHSD: Tensor, value_BHSDv: Tensor, attn_mask: Tensor | None, factors: Tensor | None,
    scale: float, is_causal: bool,
) -> Tensor:  # fmt: skip
    weights_BHTS = attention_weights(query_BHTD, key_BHSD, attn_mask, is_causal, scale)
    return (weights_BHTS if factors is None else weights_BHTS * factors) @ value_BHSDv


def _is_by_hand(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> bool:
    is_broadcast = not query.shape[:-2] == key.shape[:-2] == value.shape[:-2]
    return not is_broadcast and are_taken(query, key, value, mask) and (mask is None or mask.dim() <= query.dim())


def unsupported(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0
) -> str | None:
    """None: this algorithm runs every call."""
    return None


def run(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    *,
    bottom_right: bool = False,
    window: tuple[int | None, int | None] = (None, None),
) -> Tensor:
    """Attention: (..., H, T, Dv). Arguments as in `scaled_dot_product_attention`."""
    T, S = query.shape[-2], key.shape[-2]
    if (bottom_right and T != S) or window != (None, None):
        band = masks.band(T, S, is_causal, bottom_right, window)
        attn_mask, is_causal = masks.combine(masks.within(T, S, *band, device=query.device), attn_mask), False
    key, value = repeat_heads(query, key), repeat_heads(query, value)
    return naive_attention(query, key, value, attn_mask, dropout_p, is_causal, scale)


def repeat_heads(query: Tensor, x: Tensor) -> Tensor:
    """Key or value with fewer heads than query, each of them once for every head of query that shares it."""
    if min(query.dim(), x.dim()) < 3 or x.shape[-3] in (1, query.shape[-3]):
        return x
    return x.repeat_interleave(query.shape[-3] // x.shape[-3], dim=-3)
