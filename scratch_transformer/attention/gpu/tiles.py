"""What the portable kernels share: tiles in and out, which tiles a query can see, masks, dropout.

T queries and S keys are cut into tiles; a program computes one tile of one matrix and walks along the other. Indices of
queries are called t and of keys s, and come with a dimension of size one, so that scores may lie either way round:
t[:, None] and s[None, :] in the forward pass, t[None, :] and s[:, None] where keys are the rows.
"""

from __future__ import annotations

import triton
import triton.language as tl

# exp(x) = exp2(x · log2 e): the hardware has exp2 only, so scores and their log-sum-exp are kept in base 2.
LOG2E = tl.constexpr(1.4426950408889634)
NO_MASK = tl.constexpr(0)
BOOLEAN = tl.constexpr(1)
ADDITIVE = tl.constexpr(2)


@triton.jit
def load_tile(base, rows, stride, columns, num_rows, width, CHECK_ROWS: tl.constexpr, CHECK_COLUMNS: tl.constexpr):
    """Rows of a matrix, zero beyond its edges. An edge is only looked at where the tile can lie across it."""
    pointers = base + rows[:, None] * stride + columns[None, :]
    if CHECK_COLUMNS:
        tile = tl.load(pointers, mask=(rows[:, None] < num_rows) & (columns[None, :] < width), other=0.0)
    elif CHECK_ROWS:
        tile = tl.load(pointers, mask=rows[:, None] < num_rows, other=0.0)
    else:
        tile = tl.load(pointers)
    return tile


@triton.jit
def store_tile(base, tile, rows, stride, columns, num_rows, width):
    """The part of a tile that lies within the matrix."""
    pointers = base + rows[:, None] * stride + columns[None, :]
    inside = (rows[:, None] < num_rows) & (columns[None, :] < width)
    tl.store(pointers, tile.to(base.dtype.element_ty), mask=inside)


@triton.jit
def steps_in_band(
    start,
    num_keys,
    lower,
    upper,
    ROWS: tl.constexpr,
    STEP: tl.constexpr,
    HAS_LOWER: tl.constexpr,
    HAS_UPPER: tl.constexpr,
):
    """Which tiles of STEP keys the queries start … start + ROWS - 1 need: first ≤ first_full ≤ end_full ≤ end.

    Query t sees the keys t + lower … t + upper: a band along the diagonal, of which causal attention is the half with
    upper = 0, and a sliding window the whole. Tiles outside [first, end) are never touched, and those in
    [first_full, end_full) are seen by every query: no mask needs to be computed there.
    """
    first = 0
    first_full = 0
    end = tl.cdiv(num_keys, STEP)
    end_full = num_keys // STEP
    if HAS_LOWER:
        first = tl.minimum(tl.maximum(start + lower, 0) // STEP, end)
        first_full = tl.cdiv(tl.maximum(start + ROWS - 1 + lower, 0), STEP)
    if HAS_UPPER:
        end = tl.minimum(end, tl.cdiv(tl.maximum(start + ROWS + upper, 0), STEP))
        end_full = tl.minimum(end_full, tl.maximum(start + 1 + upper, 0) // STEP)
    end = tl.maximum(end, first)
    first_full = tl.minimum(first_full, end)
    end_full = tl.minimum(tl.maximum(end_full, first_full), end)
    return first, first_full, end_full, end


@triton.jit
def mask_scores(scores, t, s, T, S, factor, mask, stride_mt, stride_ms, MASK: tl.constexpr):
    """Minus infinity where a boolean mask blocks; an additive mask is added to scores · factor, which are then final.

    A mask that is the same for all queries, or for all keys, has a stride of zero there.
    """
    if MASK == BOOLEAN:
        allowed = tl.load(mask + t * stride_mt + s * stride_ms, mask=(t < T) & (s < S), other=0)
        scores = tl.where(allowed != 0, scores, float("-inf"))
    if MASK == ADDITIVE:
        bias = tl.load(mask + t * stride_mt + s * stride_ms, mask=(t < T) & (s < S), other=0.0).to(tl.float32)
        # A row of lowest finite numbers, another way to block, still has weights: in base 2 it must stay finite.
        bias = tl.where(bias == float("-inf"), bias, tl.maximum(bias, -2.35e38) * LOG2E)
        scores = scores * factor + bias
    return scores


@triton.jit
def store_logsumexp(logsumexp, row, t, T, row_max, row_sum, MASK: tl.constexpr):
    """log2 Σ exp2(scores) for `weigh`; with an additive mask two numbers: the largest score, and the rest.

    A mask of -1e9 for all keys of a query makes scores to which float32 can't add the logarithm of their number.
    """
    empty = row_sum == 0.0
    largest = tl.where(empty, float("inf"), row_max)  # a row that sees nothing: no weights in the backward pass
    rest = tl.log2(tl.where(empty, 1.0, row_sum))
    if MASK == ADDITIVE:
        tl.store(logsumexp + (row + t) * 2, largest, mask=t < T)
        tl.store(logsumexp + (row + t) * 2 + 1, rest, mask=t < T)
    else:
        tl.store(logsumexp + row + t, largest + rest, mask=t < T)


@triton.jit
def load_logsumexp(logsumexp, row, t, T, MASK: tl.constexpr):
    """What `store_logsumexp` has stored, as two numbers, of which `weigh` ignores the first without additive masks."""
    if MASK == ADDITIVE:
        largest = tl.load(logsumexp + (row + t) * 2, mask=t < T, other=float("inf"))  # +inf: no weight
        rest = tl.load(logsumexp + (row + t) * 2 + 1, mask=t < T, other=0.0)
    else:
        rest = tl.load(logsumexp + row + t, mask=t < T, other=float("inf"))
        largest = rest
    return largest, rest


@triton.jit
def weigh(scores, factor, largest, rest, MASK: tl.constexpr):
    """The weights, exp2(scores · factor - logsumexp); an additive mask has factor in the scores."""
    if MASK == ADDITIVE:
        weights = tl.exp2((scores - largest) - rest)
    else:
        weights = tl.exp2(scores * factor - rest)
    return weights


@triton.jit
def clip_scores(scores, t, s, S, lower, upper, HAS_LOWER: tl.constexpr, HAS_UPPER: tl.constexpr):
    """Minus infinity beyond the last key and outside the band: for the tiles that lie across an edge."""
    visible = s < S
    if HAS_LOWER:
        visible = visible & (s >= t + lower)
    if HAS_UPPER:
        visible = visible & (s <= t + upper)
    return tl.where(visible, scores, float("-inf"))


@triton.jit
def mix(x):
    """A bijection of 32-bit words that spreads every bit over all others: "lowbias32", Wellons 2018."""
    x = x ^ (x >> 16)
    x = x * 0x7FEB352D
    x = x ^ (x >> 15)
    x = x * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def dropout_keys(seed, row, t, s):
    """One random word per query and one per key, from Philox, whose counter is the query's row or minus the key's.

    Philox costs some hundred operations, too many for each of T · S weights. So it runs T + S times, and a weight's
    own word is a short hash of its query's and its key's.
    """
    return tl.randint(seed, row.to(tl.int64) + t), tl.randint(seed, -1 - s.to(tl.int64))


@triton.jit
def is_kept(key_t, key_s, threshold):
    """Whether dropout keeps a weight: its word, as 31 bits, reaches threshold = p · 2³¹.

    The word depends on (seed, head, t, s) alone and not on tiles, so the backward pass, with tiles of its own, drops
    the same weights without anything having been stored.
    """
    return (mix(key_t ^ key_s) >> 1).to(tl.int32) >= threshold
