"""The forward pass: softmax(Q Kᵀ · scale + mask) V, a tile of scores at a time.

With several tiles of keys in a row, weights are taken relative to the highest score so far; when a higher one comes,
what has been summed up is scaled down to it ("online softmax": Milakov and Gimelshein 2018; Dao et al. 2022, algorithm
1).
"""

from __future__ import annotations

import torch
from torch import Tensor

from scratch_transformer.attention.tiled import few, products, tile, workers
from scratch_transformer.attention.tiled.problem import Block, Problem
from scratch_transformer.attention.tiled.products import Way
from scratch_transformer.attention.tiled.workers import Scratch

# 2 to the power of scores within ±SAFE can be summed as it is, with room for 2⁴⁰ keys or values of 10¹² in float32.
SAFE = 60.0
# What gradients can be multiplied or divided with in float32, and lose nothing.
MODERATE = 2.0**32


def forward(problem: Problem, out: Tensor, norms: Tensor) -> None:
    """Fills out (B, K, G, T, Dv) and norms (B, K, G, T, 2): a row's shift and total; A = exp(score - shift) / total.

    exp is to the base of `exponent_scale`. Rows in which everything is blocked are zero. Shift and total are two
    numbers, not one logarithm: beside a shift of -10⁹, which masks may bring, the total's would be rounded away. Of
    moderate scores no row is shifted.
    """
    query = problem.query
    if few.suits(query.dtype, query.device, problem.rows, problem.key.shape[2], problem.dropout_p):
        few.forward(problem, out, norms)
        return
    shifts = needs_shift(problem)

    def attend(block: Block, scratch: Scratch) -> None:
        _attend(problem, block, shifts, out, norms, scratch)

    with products.asked_for(problem.way):
        workers.run(problem.blocks(), attend, problem.like, problem.flops)


def needs_shift(problem: Problem) -> bool:
    """Whether scores may be too large to exponentiate as they are: |q · k| ≤ ‖q‖ ‖k‖ (Cauchy and Schwarz).

    Not looked at on a GPU, which would have to be waited for, nor with float masks, of which anything may come, nor
    with so few queries that there are fewer scores than numbers in the keys.
    """
    _, _, G, T, D = problem.query.shape
    if problem.query.device.type != "cpu" or problem.has_float_mask or G * T < D:
        return True
    bounds: list[float] = []

    def bound(group: Block, scratch: Scratch) -> None:
        query, key = (_longest(x[group.heads], scratch) for x in (problem.query, problem.key))
        bounds.append(abs(problem.exponent_scale) * query * key)

    workers.run(problem.groups(), bound, problem.like, None)
    # not "≥": NaN must not pass for small
    return not all(bound < SAFE for bound in bounds)


def _longest(x: Tensor, scratch: Scratch) -> float:
    """The largest norm of some rows; what is not in the dtype of computing is widened in a buffer."""
    if x.dtype != scratch.dtype:
        x = scratch("rows", *x.shape).copy_(x)
    return torch.linalg.vector_norm(x, dim=-1).amax().item()


def _attend(problem: Problem, block: Block, shifts: bool, out: Tensor, norms: Tensor, scratch: Scratch) -> None:
    """One block of queries."""
    query = tile.query_rows(problem, block, scratch)
    sums = _Sums(problem, scratch("summed", *query.shape[:2], problem.value.shape[-1]))
    for keys in problem.key_tiles(block):
        key = tile.keys_of(problem.key, "key", block, keys, scratch)
        value = tile.keys_of(problem.value, "value", block, keys, scratch, problem.factors)
        weights = tile.exponents(problem, block, keys, query, key, scratch)
        if shifts:
            sums.shift(weights)
        tile.exp_(problem, weights)
        total = weights.sum(-1, keepdim=True)
        if problem.dropout_p > 0:
            weights.mul_(tile.keep(problem, block, keys, scratch))
        sums.add(total, tile.factor(problem, "weights", weights, scratch), value, scratch)
    sums.write(problem.queries(out, block), problem.queries(norms, block))


class _Sums:
    """What a block of queries has summed up over the tiles of keys so far."""

    def __init__(self, problem: Problem, summed: Tensor) -> None:
        self._problem = problem
        self._summed = summed  # Σ weight · value, (heads, rows, Dv)
        self._total: Tensor | None = None  # Σ weight, (heads, rows, 1)
        self._highest: Tensor | None = None  # what every score so far is relative to

    def shift(self, scores: Tensor) -> None:
        """Makes scores relative to the highest so far, in place; and what is summed up, if this tile has a higher."""
        highest = scores.amax(-1, keepdim=True).clamp_(min=tile.lowest(self._problem))
        if self._highest is not None and self._total is not None:
            highest = torch.maximum(highest, self._highest)
            shrink = tile.exp_(self._problem, self._highest - highest)
            self._total.mul_(shrink)
            self._summed.mul_(shrink)
        self._highest = highest
        scores.sub_(highest)

    def add(self, total: Tensor, weights: Tensor, value: Tensor, scratch: Scratch) -> None:
        """One more tile: weights (heads, rows, keys), their sum before dropout, value (heads, keys, Dv)."""
        if self._total is None:
            self._total = total
            self._summed.zero_()
        else:
            self._total.add_(total)
        tile.add_product(self._summed, weights, value, scratch)

    def write(self, out: Tensor, norms: Tensor) -> None:
        """The quotient to out, (heads, G, queries, Dv). Rows in which everything is blocked are zero."""
        if self._total is None:  # the band leaves no key to any query of the block
            out.zero_()
            norms.zero_()
            return
        shift, to_divide_by = norms.split(1, dim=-1)
        # times the share of what is kept it must not underflow either
        total = self._total.clamp_(min=2**16 * torch.finfo(self._total.dtype).tiny).view(shift.shape)
        kept = total * tile.keep_share(self._problem.dropout_p) if self._problem.dropout_p > 0 else total
        torch.div(self._summed.view(out.shape), kept, out=out)
        if self._highest is None and self._may_divide(total):
            shift.zero_()
            to_divide_by.copy_(total)
        elif self._highest is None:
            shift.copy_(total.log2_())
            to_divide_by.fill_(1)
        else:  # the highest score alone adds 1, if there is any
            shift.copy_(self._highest.view(shift.shape))
            to_divide_by.copy_(total.clamp_(min=1))

    def _may_divide(self, total: Tensor) -> bool:
        """Whether the gradient that comes back may be divided by the totals, which saves a shift of every score.

        Neither may leave the range of the dtype, and rounded gradients are rounded as they come.
        """
        if self._problem.way is not Way.WIDE:
            return False
        least, most = (x.item() for x in total.aminmax())
        return least > 1 / MODERATE and most < MODERATE
