"""Attention of a few queries to many keys, split along the keys: "flash decoding", Dao, Haziza, Massa, Sizov 2023.

With one query per head a program per head leaves most of the GPU idle, and reading the keys and values once is all that
takes time. So the keys are cut into splits, each with a program of its own. Each leaves its weighted sum of values, the
sum of its weights, and the largest score, by which they were divided; a second kernel adds them up. The queries of all
heads that share a key are rows of one matrix: keys and values are read once for all of them.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from scratch_transformer.attention.eager import is_plain
from scratch_transformer.attention.gpu import launch
from scratch_transformer.attention.gpu.flash import mask_and_seed, mask_kind, mask_strides, rows
from scratch_transformer.attention.gpu.tiles import ADDITIVE, LOG2E, clip_scores, load_tile, mask_scores

WHOLE_TILES = 64  # keys: splits begin where tiles do
KEYS_PER_SPLIT = 256  # at least: below, starting a program costs more than what it reads
MAX_SPLITS = 128
PROGRAMS_PER_PROCESSOR = 4  # enough reads in flight to keep the memory busy


@triton.jit(do_not_specialize=["T", "S", "lower", "upper", "begin", "end", "keys_per_split", "splits"])
def split_kernel(
    query,
    key,
    value,
    mask,
    part,
    part_max,
    part_sum,
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
    G,
    T,
    S,
    lower,
    upper,
    scale,
    begin,
    end,
    keys_per_split,
    splits,
    GROUP: tl.constexpr,
    D: tl.constexpr,
    DV: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_DV: tl.constexpr,
    MASK: tl.constexpr,
    HAS_LOWER: tl.constexpr,
    HAS_UPPER: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One split's attention for the GROUP · T queries that share a key, not normalised: part (B, H, T, splits, Dv).

    part_max and part_sum, (B, H, T, splits): the largest score in base 2, and Σ exp2(scores - part_max). All float32.
    """
    split = tl.program_id(0) % splits
    head = tl.program_id(0) // splits  # not a dimension of the grid: there are at most 65535 in all but the first
    b = (head // G).to(tl.int64)
    g = (head % G).to(tl.int64)
    r = tl.arange(0, BLOCK_R)
    h = g * GROUP + r // T
    t = r % T
    used = r < GROUP * T
    d = tl.arange(0, BLOCK_D)
    dv = tl.arange(0, BLOCK_DV)
    pointers = query + b * stride_qb + (h * stride_qh + t * stride_qt)[:, None] + d[None, :]
    q = tl.load(pointers, mask=used[:, None] & (d[None, :] < D), other=0.0)
    key += b * stride_kb + g * stride_kh
    value += b * stride_vb + g * stride_vh
    # unused rows look at the first query's mask
    head_mask = mask + b * stride_mb + tl.where(used, h, 0)[:, None] * stride_mh

    acc = tl.zeros([BLOCK_R, BLOCK_DV], tl.float32)
    row_sum = tl.zeros([BLOCK_R], tl.float32)
    row_max = tl.full([BLOCK_R], float("-inf"), tl.float32)
    score_factor = scale * LOG2E
    if MASK == ADDITIVE:
        score_factor = 1.0
    start = begin + split * keys_per_split
    stop = tl.minimum(start + keys_per_split, end)
    for first in range(start, stop, BLOCK_S):
        s = first + tl.arange(0, BLOCK_S)
        k = load_tile(key, s, stride_ks, d, stop, D, True, BLOCK_D != D)
        v = load_tile(value, s, stride_vs, dv, stop, DV, True, BLOCK_DV != DV)
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION)
        scores = mask_scores(scores, t[:, None], s[None, :], T, S, scale * LOG2E, head_mask, stride_mt, stride_ms, MASK)
        scores = clip_scores(scores, t[:, None], s[None, :], stop, lower, upper, HAS_LOWER, HAS_UPPER)
        new_max = tl.maximum(row_max, tl.max(scores, 1) * score_factor)  # online softmax, as in flash_forward.py
        finite_max = tl.where(new_max == float("-inf"), 0.0, new_max)
        weights = tl.exp2(scores * score_factor - finite_max[:, None])
        correction = tl.exp2(row_max - finite_max)
        row_sum = row_sum * correction + tl.sum(weights, 1)
        row_max = new_max
        acc = tl.dot(weights.to(v.dtype), v, acc * correction[:, None], input_precision=PRECISION)

    place = ((b * G * GROUP + h) * T + t) * splits + split
    tl.store(part_max + place, row_max, mask=used)
    tl.store(part_sum + place, row_sum, mask=used)
    inside = used[:, None] & (dv[None, :] < DV)
    tl.store(part + place[:, None] * DV + dv[None, :], acc, mask=inside)


@triton.jit(do_not_specialize=["splits"])
def combine_kernel(
    part,
    part_max,
    part_sum,
    out,
    splits,
    DV: tl.constexpr,
    BLOCK_SPLITS: tl.constexpr,
    BLOCK_DV: tl.constexpr,
):
    """The parts of one query, as if all had been computed with the largest of their largest scores.

    A query that sees no key in any split is zero.
    """
    row = tl.program_id(0).to(tl.int64)
    split = tl.arange(0, BLOCK_SPLITS)
    dv = tl.arange(0, BLOCK_DV)
    own_max = tl.load(part_max + row * splits + split, mask=split < splits, other=float("-inf"))
    own_sum = tl.load(part_sum + row * splits + split, mask=split < splits, other=0.0)
    largest = tl.max(own_max, 0)
    weights = tl.exp2(own_max - tl.where(largest == float("-inf"), 0.0, largest))
    total = tl.sum(weights * own_sum, 0)
    weights = weights / tl.where(total == 0.0, 1.0, total)
    pointers = part + (row * splits + split[:, None]) * DV + dv[None, :]
    parts = tl.load(pointers, mask=(split[:, None] < splits) & (dv[None, :] < DV), other=0.0)
    result = tl.sum(weights[:, None] * parts, 0)
    tl.store(out + row * DV + dv, result.to(out.dtype.element_ty), mask=dv < DV)


def num_splits(keys: int, programs: int, processors: int) -> int:
    """How many splits give every processor work, if each of `programs` goes through `keys` keys.

    Rounded down: a few programs more than run at once would make everybody wait for them.
    """
    wanted = PROGRAMS_PER_PROCESSOR * processors // programs
    return max(1, min(wanted, keys // KEYS_PER_SPLIT, MAX_SPLITS))


@launch.on_its_device
def _split_kv(query, key, value, mask, lower, upper, scale):
    query, key, value = (rows(x) for x in (query, key, value))
    (B, H, T, D), (G, S), Dv = query.shape, key.shape[1:3], value.shape[-1]
    out = query.new_empty(B, H, T, Dv)
    if not out.numel():
        return out
    begin = 0 if lower is None else min(max(lower, 0), S)
    end = S if upper is None else max(min(T + upper, S), begin)  # keys that no query sees are not read
    splits = num_splits(end - begin, B * G, launch.num_processors(query.device))
    keys_per_split = triton.cdiv(triton.cdiv(end - begin, splits), WHOLE_TILES) * WHOLE_TILES
    part = query.new_empty(B, H, T, splits, Dv, dtype=torch.float32)
    part_max = query.new_empty(B, H, T, splits, dtype=torch.float32)
    part_sum = torch.empty_like(part_max)
    kind = mask_kind(mask), lower is not None, upper is not None
    constants = _constants(H // G, T, D, Dv, query.dtype, *kind)
    split_kernel[(splits * B * G,)](
        query, key, value, mask_and_seed(query, mask, None)[0], part, part_max, part_sum,
        *query.stride()[:3], *key.stride()[:3], *value.stride()[:3], *mask_strides(mask),
        G, T, S, lower or 0, upper or 0, scale, begin, end, keys_per_split, splits,
        **constants,
    )  # fmt: skip
    combine_kernel[(B * H * T,)](
        part, part_max, part_sum, out, splits,
        DV=Dv, BLOCK_SPLITS=triton.next_power_of_2(splits), BLOCK_DV=constants["BLOCK_DV"],
    )  # fmt: skip
    return out


@functools.lru_cache(maxsize=1024)
def _constants(group, T, D, Dv, dtype, kind_of_mask, has_lower, has_upper):
    """The same dictionary for the same kind of call: nobody changes it."""
    return {
        "GROUP": group,
        "D": D,
        "DV": Dv,
        "BLOCK_R": launch.block_width(group * T),
        "BLOCK_D": launch.block_width(D),
        "BLOCK_DV": launch.block_width(Dv),
        "MASK": kind_of_mask,
        "HAS_LOWER": has_lower,
        "HAS_UPPER": has_upper,
        "PRECISION": "ieee" if dtype == torch.float32 else "tf32",
        **launch.split_options(max(D, Dv), dtype),
    }


split_kv = torch.library.custom_op(
    "scratch_transformer::split_kv",
    _split_kv,
    mutates_args=(),
    schema="(Tensor query, Tensor key, Tensor value, Tensor? mask, int? lower, int? upper, float scale) -> Tensor",
)


@split_kv.register_fake
def _(query: Tensor, key, value: Tensor, mask, lower, upper, scale):
    return query.new_empty(*query.shape[:3], value.shape[-1])


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *rest: Any) -> Tensor:
    """The operator, or without torch's dispatcher what it does."""
    return (_split_kv if is_plain(query, key, value, mask) else split_kv)(query, key, value, mask, *rest)
