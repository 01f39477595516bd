"""The attention core: one algorithm a file, one signature.

query (B, H, T, D)  ──┐
                      ├─ Q Kᵀ · scale + mask ─ softmax ─ dropout ─ A (B, H, T, S) ──┐
key   (B, H, S, D)  ──┘                                                              ├─ A V (B, H, T, Dv)
value (B, H, S, Dv) ─────────────────────────────────────────────────────────────────┘
"""

from __future__ import annotations

from torch import Tensor

from scratch_transformer import checks
from scratch_transformer.attention import naive

__all__ = ["attention_weights", "scaled_dot_product_attention"]


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(Q Kᵀ / √d_k + mask) V, with the signature and the results of torch's function of this name.

    Args:
        query: Q, (..., H, T, D).
        key: K, (..., H, S, D).
        value: V, (..., H, S, Dv).
        attn_mask: broadcasts to (..., H, T, S). Boolean: True = may attend. Float, float32 or of query's dtype: added.
        dropout_p: probability with which a weight is dropped. Always applied: pass 0 in evaluation.
        is_causal: query t attends to the keys 0 … t only (aligned at the top left when T ≠ S), and of those only to
            the ones that attn_mask allows, if there is one.
        scale: factor of the scores; 1/√D unless given.
        enable_gqa: grouped queries: key and value may have fewer heads, each used by H / heads queries in a row.

    Returns:
        (..., H, T, Dv). Rows that may attend to no key at all are zero.

    Raises:
        RuntimeError: dtypes, devices, dimensions or heads don't fit, or dropout_p is outside [0, 1].

    Source: Vaswani et al. 2017, section 3.2.1, equation 1; grouped queries: Ainslie et al. 2023.
    """
    checks.check_attention(query, key, value, attn_mask, dropout_p, enable_gqa)
    if enable_gqa:
        key, value = _repeat_heads(query, key, "key"), _repeat_heads(query, value, "value")
    return naive.naive_attention(query, key, value, attn_mask, dropout_p, is_causal, scale)


def attention_weights(
    query: Tensor,
    key: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(Q Kᵀ / √d_k + mask): the weights alone, (..., H, T, S), before any dropout.

    Arguments and errors as in `scaled_dot_product_attention`, of which these are the weights.
    """
    checks.check_attention(query, key, key, attn_mask, 0.0, enable_gqa)
    if enable_gqa:
        key = _repeat_heads(query, key, "key")
    return naive.attention_weights(query, key, attn_mask, is_causal, scale)


def _repeat_heads(query: Tensor, x: Tensor, name: str) -> Tensor:
    if min(query.dim(), x.dim()) < 3:
        raise RuntimeError(
            f"attention: enable_gqa needs query and {name} with a head dimension, (..., H, length, width)"
        )
    heads, groups = query.shape[-3], x.shape[-3]
    if heads % groups != 0:
        raise RuntimeError(
            f"attention: with enable_gqa query's number of heads, {heads}, must be a multiple of {name}'s, {groups}"
        )
    return x.repeat_interleave(heads // groups, dim=-3)
