"""The backward pass: tiles of the weights A are computed again from the saved norms, A = exp(score - shift) / total.

With O = A V, dO the gradient of O, and ∘ the product element by element (Dao et al. 2022, algorithm 4):

    dV = Aᵀ dO            dA = dO Vᵀ         dS = A ∘ (dA - rowsum(dA ∘ A)) = A ∘ (dA - rowsum(dO ∘ O))
    dQ = scale · dS K     dK = scale · dSᵀ Q     d mask = dS, summed over what the mask was broadcast over

Dropout multiplies A by M = keep / (1 - p) in O and dV, and dA by M; the row sum is still that of dO ∘ O.
Everything is linear in dO: divided by total, it saves dividing tiles.
"""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from scratch_transformer.attention.tiled import products, tile, workers
from scratch_transformer.attention.tiled.problem import Block, Problem
from scratch_transformer.attention.tiled.products import Way
from scratch_transformer.attention.tiled.workers import Scratch

# Five matrix products, where the forward pass has two.
PRODUCTS = 2.5


class Gradients(NamedTuple):
    """Of the problem's tensors, in their shapes; mask in the dtype of computing, and zero before."""

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None


class Saved(NamedTuple):
    """The gradient that came back, (B, K, G, T, Dv), and what the forward pass left: (B, K, G, T, Dv) and (…, 2)."""

    grad_out: Tensor
    out: Tensor
    norms: Tensor


def backward(problem: Problem, saved: Saved, gradients: Gradients) -> None:
    """Fills `gradients`."""

    def differentiate(group: Block, scratch: Scratch) -> None:
        _differentiate(problem, group, saved, gradients, scratch)

    groups = problem.groups()
    with products.asked_for(problem.way):
        if gradients.mask is None:
            workers.run(groups, differentiate, problem.like, PRODUCTS * problem.flops)
        else:  # summed up over heads: one after the other, so that the sum is the same each time
            workers.run_in_turn(groups, differentiate, problem.like)


def _differentiate(problem: Problem, group: Block, saved: Saved, gradients: Gradients, scratch: Scratch) -> None:
    """All queries of some heads, one block after the other, for they add to the same keys and values."""
    grad_key, grad_value = gradients.key[group.heads], gradients.value[group.heads]
    dtype = problem.like.dtype
    key_sum = grad_key if grad_key.dtype == dtype else scratch("grad_key", *grad_key.shape)
    value_sum = grad_value if grad_value.dtype == dtype else scratch("grad_value", *grad_value.shape)
    key_sum.zero_()
    value_sum.zero_()
    for t0 in range(0, group.t1, problem.queries_backward):
        block = dataclasses.replace(group, t0=t0, t1=min(t0 + problem.queries_backward, group.t1))
        _add_block(problem, block, saved, gradients, key_sum, value_sum, scratch)
    key_sum.mul_(problem.scale_left)
    if key_sum is not grad_key:
        grad_key.copy_(key_sum)
        grad_value.copy_(value_sum)


def _add_block(
    problem: Problem,
    block: Block,
    saved: Saved,
    gradients: Gradients,
    key_sum: Tensor,
    value_sum: Tensor,
    scratch: Scratch,
) -> None:
    """One block of queries: its gradient, and what it adds to those of the keys and values."""
    query = query_as_factor = tile.query_rows(problem, block, scratch)
    if problem.way is Way.ROUNDED:
        query_as_factor = tile.rows(problem.queries(problem.query, block), "query as factor", scratch, problem.factors)
    upstream = _Upstream(problem, block, saved, scratch)
    grad_query = scratch("grad_query", *query.shape).zero_()
    for keys in problem.key_tiles(block):
        key = tile.keys_of(problem.key, "key", block, keys, scratch)
        weights = tile.exponents(problem, block, keys, query, key, scratch)
        if upstream.is_shifted:
            weights.sub_(upstream.shift)
        weights, grad_scores = upstream.through(keys, tile.exp_(problem, weights), gradients.mask)
        key = tile.keys_of(problem.key, "key", block, keys, scratch, problem.factors)
        tile.add_product(value_sum[:, keys], weights.transpose(1, 2), upstream.factor, scratch)
        tile.add_product(grad_query, grad_scores, key, scratch)
        tile.add_product(key_sum[:, keys], grad_scores.transpose(1, 2), query_as_factor, scratch)
    rows = problem.queries(gradients.query, block)
    rows.copy_(grad_query.mul_(problem.scale).view(rows.shape))


class _Upstream:
    """What comes back to a block of queries, dO / total, and goes through its weights."""

    def __init__(self, problem: Problem, block: Block, saved: Saved, scratch: Scratch) -> None:
        self._problem, self._block, self._scratch = problem, block, scratch
        grad_out = tile.rows(problem.queries(saved.grad_out, block), "grad_out", scratch)
        self.shift, total = problem.queries(saved.norms, block).reshape(*grad_out.shape[:2], 2).split(1, dim=-1)
        self.is_shifted = bool(self.shift.any())
        grad_out.div_(total)
        grad_out.copy_(tile.factor(problem, "grad_out", grad_out, scratch))  # the sum is that of what is multiplied
        out = tile.rows(problem.queries(saved.out, block), "out", scratch)
        self._row_sum = out.mul_(grad_out).sum(-1, keepdim=True)
        if problem.dropout_p > 0:
            grad_out.div_(tile.keep_share(problem.dropout_p))
        self._grad_out = grad_out
        self.factor = tile.factor(problem, "grad_out", grad_out, scratch)

    def through(self, keys: slice, weights: Tensor, grad_mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Of a tile: the weights, after dropout, and the gradient of its scores, as they are multiplied."""
        problem, block, scratch = self._problem, self._block, self._scratch
        if problem.way is Way.ROUNDED and problem.dropout_p == 0 and grad_mask is None:
            weights = tile.factor(problem, "weights", weights, scratch)
            return weights, self._above_row_sum(keys, weights).mul_(weights)
        value = tile.keys_of(problem.value, "value", block, keys, scratch)
        grad = torch.bmm(self._grad_out, value.transpose(1, 2), out=scratch("grad_weights", *weights.shape))
        dropped = weights
        if problem.dropout_p > 0:
            kept = tile.keep(problem, block, keys, scratch)
            grad.mul_(kept)
            dropped = kept.mul_(weights)
        grad_scores = grad.sub_(self._row_sum).mul_(weights)
        if grad_mask is not None:
            _add_to_mask(problem, block, keys, grad_scores, grad_mask)
        return (
            tile.factor(problem, "weights", dropped, scratch),
            tile.factor(problem, "grad_scores", grad_scores, scratch),
        )

    def _above_row_sum(self, keys: slice, weights: Tensor) -> Tensor:
        """dO Vᵀ - row sum, as one product: rounded only after the difference, in which most of both may cancel."""
        return torch.bmm(
            self._beside_row_sum,
            self._beside_ones(keys).transpose(1, 2),
            out=self._scratch("grad_scores", *weights.shape, dtype=weights.dtype),
        )

    @cached_property
    def _beside_row_sum(self) -> Tensor:
        """dO and the negative row sum as two numbers, of which the second is what the first has lost in rounding."""
        *shape, width = self.factor.shape
        columns = self._scratch("grad_out, row_sum", *shape, width + 2, dtype=self.factor.dtype)
        grad_out, first, second = columns.split([width, 1, 1], dim=-1)
        grad_out.copy_(self.factor)
        first.copy_(self._row_sum).neg_()
        second.copy_(self._row_sum + first).neg_()
        return columns

    def _beside_ones(self, keys: slice) -> Tensor:
        """A tile of values, and two ones."""
        value = tile.keys_of(self._problem.value, "value", self._block, keys, self._scratch, self.factor.dtype)
        *shape, width = value.shape
        columns = self._scratch("value, ones", *shape, width + 2, dtype=value.dtype)
        columns[..., :width] = value
        columns[..., width:] = 1
        return columns


def _add_to_mask(problem: Problem, block: Block, keys: slice, grad_scores: Tensor, grad_mask: Tensor) -> None:
    """The gradient of a tile of scores, summed over what the mask is broadcast over."""
    part = problem.mask_tile(grad_mask, block, keys)
    heads, _, width = grad_scores.shape
    grid = grad_scores.view(heads, -1, block.t1 - block.t0, width)
    part.add_(grid.sum_to_size(part.shape))
