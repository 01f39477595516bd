"""The attention core: one algorithm a file, one signature.

query (B, H, T, D)  ──┐
                      ├─ Q Kᵀ · scale + mask ─ softmax ─ dropout ─ A (B, H, T, S) ──┐
key   (B, H, S, D)  ──┘                                                              ├─ A V (B, H, T, Dv)
value (B, H, S, Dv) ─────────────────────────────────────────────────────────────────┘
"""

from __future__ import annotations

from torch import Tensor

from scratch_transformer import checks
from scratch_transformer.attention import naive, tiled
from scratch_transformer.attention.algorithms import ALGORITHMS, choose, hands_on, use_algorithm

__all__ = ["ALGORITHMS", "attention_weights", "explain", "scaled_dot_product_attention", "use_algorithm"]

Window = tuple[int | None, int | None]


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    bottom_right: bool = False,
    window: Window = (None, None),
    algorithm: str = "auto",
) -> Tensor:
    """softmax(Q Kᵀ / √d_k + mask) V, with the signature and the results of torch's function of this name, and more.

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

    Not in torch's function:
        bottom_right: query t stands at key t + S - T instead of key t, for is_causal and window, so that the last
            query sees the last key.
        window: to how many keys before, and after, its own place a query may attend; None: to all.
        algorithm: one of `ALGORITHMS`, or "auto": the fastest for the call, as `explain` says. They differ in speed and
            memory; in results by rounding, and in which weights dropout drops: only "naive" drops torch's.

    Returns:
        (..., H, T, Dv). Rows that may attend to no key at all are zero.

    Raises:
        RuntimeError: dtypes, devices, dimensions or heads don't fit, dropout_p is outside [0, 1], or the algorithm
            asked for can't run the call.
        ValueError: window is no pair of numbers that are at least 0, or there is no such algorithm.

    Source: Vaswani et al. 2017, section 3.2.1, equation 1; grouped queries: Ainslie et al. 2023; window: Beltagy et al.
    2020, section 3.1.
    """
    checks.check_attention(query, key, value, attn_mask, dropout_p, enable_gqa, window)
    choice = choose(algorithm, query, key, value, attn_mask, dropout_p)
    run = ALGORITHMS[choice.algorithm].run
    return run(query, key, value, attn_mask, dropout_p, is_causal, scale, bottom_right=bottom_right, window=window)


def explain(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    bottom_right: bool = False,
    window: Window = (None, None),
    algorithm: str = "auto",
) -> str:
    """Which algorithm `scaled_dot_product_attention` takes for this call, and why; then what keeps others from it."""
    checks.check_attention(query, key, value, attn_mask, dropout_p, enable_gqa, window)
    choice = choose(algorithm, query, key, value, attn_mask, dropout_p)
    handed_on = hands_on(choice.algorithm, query, key, is_causal, bottom_right, window)
    more = tiled.note(query, key, dropout_p) if choice.algorithm == "tiled" else handed_on
    lines = [f"{choice}; {more}" if more else str(choice)]
    for name, other in ALGORITHMS.items():
        reason = other.unsupported(query, key, value, attn_mask, dropout_p)
        if reason is not None:
            lines.append(f"not {name}: {reason}")
    return "\n".join(lines)


def attention_weights(
    query: Tensor,
    key: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(Q Kᵀ / √d_k + mask): the weights alone, (..., H, T, S), before any dropout: always the naive algorithm.

    Arguments and errors as in `scaled_dot_product_attention`, of which these are the weights.
    """
    checks.check_attention(query, key, key, attn_mask, 0.0, enable_gqa)
    return naive.attention_weights(query, naive.repeat_heads(query, key), attn_mask, is_causal, scale)
