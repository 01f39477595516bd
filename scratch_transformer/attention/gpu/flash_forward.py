"""The forward pass of flash attention as one portable Triton kernel. Dao 2023, FlashAttention-2, algorithm 1.

A program owns BLOCK_T queries of one head, walks over their keys, and keeps, per query, the largest score so far, the
sum of exponentials, and the weighted sum of values: the T × S scores never leave the chip.
"""

from __future__ import annotations

import triton
import triton.language as tl

from scratch_transformer.attention.gpu.tiles import (
    ADDITIVE,
    LOG2E,
    clip_scores,
    dropout_keys,
    is_kept,
    load_tile,
    mask_scores,
    steps_in_band,
    store_logsumexp,
    store_tile,
)


@triton.jit
def _attend(
    acc,
    row_sum,
    row_max,
    q,
    key,
    value,
    mask,
    stride_ks,
    stride_vs,
    stride_mt,
    stride_ms,
    t,
    T,
    S,
    factor,
    lower,
    upper,
    seed,
    row,
    threshold,
    first,
    end,
    EDGE: tl.constexpr,
    D: tl.constexpr,
    DV: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_DV: tl.constexpr,
    MASK: tl.constexpr,
    HAS_LOWER: tl.constexpr,
    HAS_UPPER: tl.constexpr,
    DROPOUT: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Let the queries t attend to the key tiles first … end - 1."""
    d = tl.arange(0, BLOCK_D)
    dv = tl.arange(0, BLOCK_DV)
    score_factor = factor
    if MASK == ADDITIVE:
        score_factor = 1.0  # mask_scores has applied it
    for step in range(first, end):
        s = step * BLOCK_S + tl.arange(0, BLOCK_S)
        k = load_tile(key, s, stride_ks, d, S, D, EDGE, BLOCK_D != D)
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION)
        scores = mask_scores(scores, t[:, None], s[None, :], T, S, factor, mask, stride_mt, stride_ms, MASK)
        if EDGE:
            scores = clip_scores(scores, t[:, None], s[None, :], S, lower, upper, HAS_LOWER, HAS_UPPER)
        # Online softmax: what was summed under the old maximum is rescaled to the new one. The scale of the scores is
        # applied inside the exponent, where multiplication and subtraction are one instruction.
        new_max = tl.maximum(row_max, tl.max(scores, 1) * score_factor)
        finite_max = tl.where(new_max == float("-inf"), 0.0, new_max)  # nothing visible yet: exp2(-inf - 0) = 0
        weights = tl.exp2(scores * score_factor - finite_max[:, None])
        correction = tl.exp2(row_max - finite_max)
        row_sum = row_sum * correction + tl.sum(weights, 1)
        row_max = new_max
        if DROPOUT:  # after the sum: dropout acts on normalised weights
            key_t, key_s = dropout_keys(seed, row, t, s)
            weights = tl.where(is_kept(key_t[:, None], key_s[None, :], threshold), weights, 0.0)
        v = load_tile(value, s, stride_vs, dv, S, DV, EDGE, BLOCK_DV != DV)
        acc = tl.dot(weights.to(v.dtype), v, acc * correction[:, None], input_precision=PRECISION)
    return acc, row_sum, row_max


@triton.jit(do_not_specialize=["T", "S", "lower", "upper", "threshold"])
def flash_forward_kernel(
    query,
    key,
    value,
    mask,
    seed,
    out,
    logsumexp,
    stride_qb,
    stride_qh,
    stride_qt,
    stride_kb,
    stride_kh,
    stride_ks,
    stride_vb,
    stride_vh,
    stride_vs,
    stride_mb,
    stride_mh,
    stride_mt,
    stride_ms,
    stride_ob,
    stride_oh,
    stride_ot,
    H,
    T,
    S,
    lower,
    upper,
    scale,
    threshold,
    keep_scale,
    GROUP: tl.constexpr,
    D: tl.constexpr,
    DV: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_DV: tl.constexpr,
    RAGGED: tl.constexpr,
    MASK: tl.constexpr,
    HAS_LOWER: tl.constexpr,
    HAS_UPPER: tl.constexpr,
    DROPOUT: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """out = dropout(softmax(Q Kᵀ · scale + mask)) V and log2 Σ exp2(scores): one program, one tile of queries."""
    tiles = tl.cdiv(T, BLOCK_T)
    tile = tl.program_id(0) % tiles
    if HAS_UPPER:
        # Causal: late queries see most keys. The longest work starts first, so that no processor ends on it alone.
        tile = tiles - 1 - tile
    head = tl.program_id(0) // tiles
    b = (head // H).to(tl.int64)
    h = (head % H).to(tl.int64)
    query += b * stride_qb + h * stride_qh
    key += b * stride_kb + (h // GROUP) * stride_kh
    value += b * stride_vb + (h // GROUP) * stride_vh
    mask += b * stride_mb + h * stride_mh
    out += b * stride_ob + h * stride_oh
    row = head.to(tl.int64) * T

    start = tile * BLOCK_T
    t = start + tl.arange(0, BLOCK_T)
    d = tl.arange(0, BLOCK_D)
    q = load_tile(query, t, stride_qt, d, T, D, True, BLOCK_D != D)
    random = 0
    if DROPOUT:
        random = tl.load(seed)
    acc = tl.zeros([BLOCK_T, BLOCK_DV], tl.float32)
    row_sum = tl.zeros([BLOCK_T], tl.float32)
    row_max = tl.full([BLOCK_T], float("-inf"), tl.float32)

    first, first_full, end_full, end = steps_in_band(start, S, lower, upper, BLOCK_T, BLOCK_S, HAS_LOWER, HAS_UPPER)
    # Three stretches: the band's lower edge, the part that everybody sees, the upper edge or the last key.
    for stretch in tl.static_range(3):
        if stretch == 1 or (stretch == 0 and HAS_LOWER) or (stretch == 2 and (HAS_UPPER or RAGGED)):
            begin = first if stretch == 0 else (first_full if stretch == 1 else end_full)
            stop = first_full if stretch == 0 else (end_full if stretch == 1 else end)
            acc, row_sum, row_max = _attend(
                acc, row_sum, row_max, q, key, value, mask, stride_ks, stride_vs, stride_mt, stride_ms, t, T, S,
                scale * LOG2E, lower, upper, random, row, threshold, begin, stop,
                stretch != 1, D, DV, BLOCK_S, BLOCK_D, BLOCK_DV, MASK, HAS_LOWER, HAS_UPPER, DROPOUT, PRECISION,
            )  # fmt: skip

    # A row that sees nothing has the sum 0, and becomes zero.
    acc = acc * (keep_scale / tl.where(row_sum == 0.0, 1.0, row_sum))[:, None]
    store_tile(out, acc, t, stride_ot, tl.arange(0, BLOCK_DV), T, DV)
    store_logsumexp(logsumexp, row, t, T, row_max, row_sum, MASK)
