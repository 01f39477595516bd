"""What the forward and the backward pass do with one tile of scores: a block of queries, up to 512 keys."""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor

from scratch_transformer.attention.tiled.problem import QUERIES, Block, Problem
from scratch_transformer.attention.tiled.products import Way
from scratch_transformer.attention.tiled.workers import Scratch


def query_rows(problem: Problem, block: Block, scratch: Scratch) -> Tensor:
    """The block's queries as rows of a matrix for each head of keys, (heads, G · queries, D), for `exponents`.

    Scaled here, which is cheaper than on the way out of the product; but not if oneDNN narrows: bfloat16 queries, once
    scaled, would be bfloat16 numbers no more.
    """
    query = rows(problem.queries(problem.query, block), "query", scratch)
    return query if problem.way is Way.NARROWED else query.mul_(problem.exponent_scale)


def rows(x: Tensor, name: str, scratch: Scratch, dtype: torch.dtype | None = None) -> Tensor:
    """(heads, G, queries, D), a view of a half precision or strided tensor, as (heads, G · queries, D) in a buffer."""
    return scratch(name, *x.shape, dtype=dtype).copy_(x).flatten(1, 2)


def keys_of(
    x: Tensor, name: str, block: Block, keys: slice, scratch: Scratch, dtype: torch.dtype | None = None
) -> Tensor:
    """A tile of key or value, (heads, keys, D), in a dtype (None: that of computing): a view, or a copy."""
    tile = x[block.heads][:, keys]
    if x.dtype == (dtype or scratch.dtype):
        return tile
    return scratch.copy(name, tile, (block.heads[0], block.h0, keys.start, keys.stop))


def exponents(problem: Problem, block: Block, keys: slice, query: Tensor, key: Tensor, scratch: Scratch) -> Tensor:
    """scale · Q Kᵀ + mask of a tile, (heads, G · queries, keys): what e or 2 is raised to; -inf or near if blocked."""
    heads, rows, width = query.shape[0], query.shape[1], key.shape[1]
    scores = scratch("scores", heads, rows, width)
    if problem.way is Way.NARROWED:
        scores.baddbmm_(query, key.transpose(1, 2), beta=0, alpha=problem.exponent_scale)
    else:
        torch.bmm(query, key.transpose(1, 2), out=scores)
    if problem.upper is not None or problem.lower is not None:
        _block_band(problem, block, keys, scores.view(heads, -1, block.t1 - block.t0, width))
    if problem.mask is not None:
        grid = scores.view(heads, -1, block.t1 - block.t0, width)
        grid.add_(_additive(problem.mask_tile(problem.mask, block, keys), scratch))
    return scores


def exp_(problem: Problem, exponents: Tensor) -> Tensor:
    """In place, to the base that `exponent_scale` is for."""
    return exponents.exp_() if problem.has_float_mask else exponents.exp2_()


def factor(problem: Problem, name: str, x: Tensor, scratch: Scratch) -> Tensor:
    """x as it is multiplied in a product that is summed up over tiles: itself, or rounded to bfloat16."""
    return x if x.dtype == problem.factors else scratch(name, *x.shape, dtype=problem.factors).copy_(x)


def add_product(total: Tensor, first: Tensor, second: Tensor, scratch: Scratch) -> None:
    """total += first · second. A product of bfloat16 factors is rounded, too, before it is added."""
    if first.dtype == total.dtype:
        total.baddbmm_(first, second)
        return
    product = torch.bmm(first, second, out=scratch("product", *total.shape, dtype=first.dtype))
    total.add_(scratch("product", *total.shape).copy_(product))  # half the time of adding what has another dtype


def lowest(problem: Problem) -> float:
    """Less than every score that counts, more than every blocked one: a row's shift where all is blocked."""
    low = torch.finfo(problem.like.dtype).min
    return low if problem.mask is None or problem.has_float_mask else low / 2


def _additive(mask: Tensor, scratch: Scratch) -> Tensor:
    """0 where a boolean mask allows, the dtype's lowest number where it blocks. (0 · inf would be NaN.)"""
    if mask.is_floating_point():
        return mask
    buffer = scratch("mask", *mask.shape).copy_(mask)
    return buffer.sub_(1).mul_(torch.finfo(buffer.dtype).max)


def _block_band(problem: Problem, block: Block, keys: slice, grid: Tensor) -> None:
    """-inf outside the keys t + lower … t + upper: two triangles at the ends, as `key_tiles` has cut off the rest."""
    *_, queries, width = grid.shape
    right, left = _triangles(grid.dtype, grid.device)
    if problem.upper is not None:
        first = block.t0 + problem.upper + 1 - keys.start  # the first query's first blocked key in this tile
        if first < width:
            skipped, at = max(0, -first), max(0, first)
            grid[..., at:].add_(right[:queries, skipped : skipped + width - at])
    if problem.lower is not None:
        last = block.t1 - 1 + problem.lower - keys.start  # the last query's first allowed key in this tile
        if last > 0:
            skipped = keys.start - block.t0 - problem.lower
            grid[..., :last].add_(left[:queries, skipped : skipped + min(last, width)])


@functools.cache
def _triangles(dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """-inf at and right of the diagonal; -inf left of it."""
    with torch.inference_mode():
        blocked = torch.full((QUERIES, QUERIES), -math.inf, dtype=dtype, device=device)
        return blocked.triu(), blocked.tril(-1)


def keep(problem: Problem, block: Block, keys: slice, scratch: Scratch) -> Tensor:
    """Dropout's 0 or 1 for every weight of a tile, the same whenever it is asked for: the seed is the tile's own.

    16 random bits a weight: the probability of dropping is dropout_p rounded to a multiple of 2⁻¹⁶. See `keep_share`.
    """
    heads, rows = block.h1 - block.h0, problem.query.shape[2] * (block.t1 - block.t0)
    width = keys.stop - keys.start
    K, T, S = problem.key.shape[1], problem.query.shape[3], problem.key.shape[2]
    place = ((block.b * K + block.h0) * T + block.t0) * S + keys.start
    generator = torch.Generator(problem.query.device).manual_seed(problem.seed + place)
    numbers = heads * rows * width
    bits = problem.query.new_empty((numbers + 3) // 4, dtype=torch.int64)
    bits.random_(-(2**63), 2**63 - 1, generator=generator)
    kept = scratch("keep", heads, rows, width)
    kept.view(-1).copy_(bits.view(torch.int16)[:numbers])
    return kept.lt_(round(keep_share(problem.dropout_p) * 2**16) - 2**15)


def keep_share(dropout_p: float) -> float:
    """The probability with which `keep` is 1."""
    return round((1 - dropout_p) * 2**16) / 2**16
