"""The gradients of keys and values, dK and dV, as a portable Triton kernel. The equations: `flash_grad_query.py`."""

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
def grad_key_value_kernel(
    query,
    key,
    value,
    mask,
    seed,
    grad_out,
    logsumexp,
    delta,
    grad_query,
    grad_key,
    grad_value,
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
    stride_dkb,
    stride_dkh,
    stride_dks,
    stride_dvb,
    stride_dvh,
    stride_dvs,
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
    ADD_GRAD_QUERY: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """dK and dV of one tile of keys: a walk along the queries of every head that shares them. Scores lie as Kᵀ Q.

    ADD_GRAD_QUERY: grad_query, float32 and zero at the start, collects dQ on the way, in no fixed order.
    """
    tiles = tl.cdiv(S, BLOCK_S)
    start = (tl.program_id(0) % tiles) * BLOCK_S  # causal: the first keys are seen by most queries, and come first
    shared_head = tl.program_id(0) // tiles
    b = (shared_head // (H // GROUP)).to(tl.int64)
    shared_h = (shared_head % (H // GROUP)).to(tl.int64)

    s = start + tl.arange(0, BLOCK_S)
    d = tl.arange(0, BLOCK_D)
    dv = tl.arange(0, BLOCK_DV)
    k = load_tile(key + b * stride_kb + shared_h * stride_kh, s, stride_ks, d, S, D, True, BLOCK_D != D)
    v = load_tile(value + b * stride_vb + shared_h * stride_vh, s, stride_vs, dv, S, DV, True, BLOCK_DV != DV)
    random = 0
    if DROPOUT:
        random = tl.load(seed)
    factor = scale * LOG2E
    dk_tile = tl.zeros([BLOCK_S, BLOCK_D], tl.float32)
    dv_tile = tl.zeros([BLOCK_S, BLOCK_DV], tl.float32)

    # Query t sees the keys t + lower … t + upper, so key s is seen by the queries s - upper … s - lower: a band too.
    first, first_full, end_full, end = steps_in_band(start, T, -upper, -lower, BLOCK_S, BLOCK_T, HAS_UPPER, HAS_LOWER)
    for member in range(GROUP):
        h = shared_h * GROUP + member
        row = (b * H + h) * T
        for step in range(first, end):
            t = step * BLOCK_T + tl.arange(0, BLOCK_T)
            q = load_tile(query + b * stride_qb + h * stride_qh, t, stride_qt, d, T, D, True, BLOCK_D != D)
            do = load_tile(grad_out + b * stride_gb + h * stride_gh, t, stride_gt, dv, T, DV, True, BLOCK_DV != DV)
            largest, rest = load_logsumexp(logsumexp, row, t, T, MASK)
            row_delta = tl.load(delta + row + t, mask=t < T, other=0.0)
            scores = tl.dot(k, tl.trans(q), input_precision=PRECISION)
            head_mask = mask + b * stride_mb + h * stride_mh
            scores = mask_scores(scores, t[None, :], s[:, None], T, S, factor, head_mask, stride_mt, stride_ms, MASK)
            if (step < first_full) | (step >= end_full) | (start + BLOCK_S > S):
                scores = clip_scores(scores, t[None, :], s[:, None], S, lower, upper, HAS_LOWER, HAS_UPPER)
            weights = weigh(scores, factor, largest[None, :], rest[None, :], MASK)
            dp = tl.dot(v, tl.trans(do), input_precision=PRECISION)
            dropped = weights
            if DROPOUT:
                key_t, key_s = dropout_keys(random, row, t, s)
                kept = is_kept(key_t[None, :], key_s[:, None], threshold)
                dropped = tl.where(kept, weights, 0.0)
                dp = tl.where(kept, dp * keep_scale, 0.0)
            dv_tile = tl.dot(dropped.to(do.dtype), do, dv_tile, input_precision=PRECISION)
            ds = (weights * (dp - row_delta[None, :])).to(q.dtype)
            dk_tile = tl.dot(ds, q, dk_tile, input_precision=PRECISION)
            if ADD_GRAD_QUERY:
                share = tl.dot(tl.trans(ds), k, input_precision=PRECISION) * scale
                pointers = grad_query + b * stride_dqb + h * stride_dqh + t[:, None] * stride_dqt + d[None, :]
                tl.atomic_add(pointers, share, mask=(t[:, None] < T) & (d[None, :] < D), sem="relaxed")
    store_tile(grad_key + b * stride_dkb + shared_h * stride_dkh, dk_tile * scale, s, stride_dks, d, S, D)
    store_tile(grad_value + b * stride_dvb + shared_h * stride_dvh, dv_tile * keep_scale, s, stride_dvs, dv, S, DV)
