"""The gradient of the queries, dQ, as a portable Triton kernel. Dao 2023, FlashAttention-2, algorithm 2.

The whole backward pass: with the weights P = exp(scores - logsumexp), recomputed tile by tile, and δ of `delta.py`,

    dV = Pᵀ dO        dP = dO Vᵀ        dS = P ⊙ (dP - δ)        dQ = dS K · scale        dK = dSᵀ Q · scale

Keys are walked along for dQ, here, and queries for dK and dV, in `flash_grad_key_value.py`. Two kernels, each with its
own walk, write every number once and in one order: the result is the same in every run, at the price of computing the
scores and dP twice, seven matrix products in all. Or the second kernel adds its share of dQ to memory as it goes: five
products, in an order that varies.
"""

from __future__ import annotations

import triton
import triton.language as tl

from scratch_transformer.attention.gpu.tiles import (
    LOG2E,
    clip_scores,
    dropout_keys,
    is_kept,
    load_logsumexp,
    load_tile,
    mask_scores,
    steps_in_band,
    store_tile,
    weigh,
)


@triton.jit(do_not_specialize=["T", "S", "lower", "upper", "threshold"])
def grad_query_kernel(
    query,
    key,
    value,
    mask,
    seed,
    grad_out,
    logsumexp,
    delta,
    grad_query,
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
    stride_gb,
    stride_gh,
    stride_gt,
    stride_dqb,
    stride_dqh,
    stride_dqt,
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
    MASK: tl.constexpr,
    HAS_LOWER: tl.constexpr,
    HAS_UPPER: tl.constexpr,
    DROPOUT: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """dQ of one tile of queries: a walk along the keys, as in the forward pass."""
    tiles = tl.cdiv(T, BLOCK_T)
    tile = tl.program_id(0) % tiles
    if HAS_UPPER:
        tile = tiles - 1 - tile  # the longest first
    head = tl.program_id(0) // tiles
    b = (head // H).to(tl.int64)
    h = (head % H).to(tl.int64)
    key += b * stride_kb + (h // GROUP) * stride_kh
    value += b * stride_vb + (h // GROUP) * stride_vh
    mask += b * stride_mb + h * stride_mh
    row = head.to(tl.int64) * T

    start = tile * BLOCK_T
    t = start + tl.arange(0, BLOCK_T)
    d = tl.arange(0, BLOCK_D)
    dv = tl.arange(0, BLOCK_DV)
    q = load_tile(query + b * stride_qb + h * stride_qh, t, stride_qt, d, T, D, True, BLOCK_D != D)
    do = load_tile(grad_out + b * stride_gb + h * stride_gh, t, stride_gt, dv, T, DV, True, BLOCK_DV != DV)
    largest, rest = load_logsumexp(logsumexp, row, t, T, MASK)
    row_delta = tl.load(delta + row + t, mask=t < T, other=0.0)
    random = 0
    if DROPOUT:
        random = tl.load(seed)
    factor = scale * LOG2E
    dq = tl.zeros([BLOCK_T, BLOCK_D], tl.float32)

    first, first_full, end_full, end = steps_in_band(start, S, lower, upper, BLOCK_T, BLOCK_S, HAS_LOWER, HAS_UPPER)
    for step in range(first, end):
        s = step * BLOCK_S + tl.arange(0, BLOCK_S)
        k = load_tile(key, s, stride_ks, d, S, D, True, BLOCK_D != D)
        v = load_tile(value, s, stride_vs, dv, S, DV, True, BLOCK_DV != DV)
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION)
        scores = mask_scores(scores, t[:, None], s[None, :], T, S, factor, mask, stride_mt, stride_ms, MASK)
        if (step < first_full) | (step >= end_full):
            scores = clip_scores(scores, t[:, None], s[None, :], S, lower, upper, HAS_LOWER, HAS_UPPER)
        weights = weigh(scores, factor, largest[:, None], rest[:, None], MASK)
        dp = tl.dot(do, tl.trans(v), input_precision=PRECISION)
        if DROPOUT:
            key_t, key_s = dropout_keys(random, row, t, s)
            dp = tl.where(is_kept(key_t[:, None], key_s[None, :], threshold), dp * keep_scale, 0.0)
        ds = weights * (dp - row_delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq, input_precision=PRECISION)
    store_tile(grad_query + b * stride_dqb + h * stride_dqh, dq * scale, t, stride_dqt, d, T, D)
