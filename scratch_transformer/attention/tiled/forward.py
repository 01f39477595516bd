"""The forward pass: softmax(Q Kᵀ · scale + mask) V, a tile of scores at a time.

With several tiles of keys in a row, weights are taken relative to the highest score so far; when a higher one comes,
what has been summed up is scaled down to it ("online softmax", Milakov and Gimelshein 2018; Dao et al. 2022, algorithm 1).
"""

from __future__ import annotations

import torch
from torch import Tensor

from scratch_transformer.attention.tiled import tile, workers
from scratch_transformer.attention.tiled.problem import Block, Problem
from scratch_transformer.attention.tiled.workers import Scratch

# 2 to the power of scores within ±SAFE can be summed as it is, with room for 2⁴⁰ keys or values of 10¹² in float32.
SAFE = 60.0


def forward(problem: Problem, out: Tensor, logsumexp: Tensor) -> None:
    """Fills out (B, K, G, T, Dv) and logsumexp (B, K, G, T, 1): log Σ exp(score) of each row, or log₂ Σ 2^score.

    Rows in which everything is blocked are zero, and their logsumexp is inf.
    """
    shifts = needs_shift(problem)

    def attend(block: Block, scratch: Scratch) -> None:
        _attend(problem, block, shifts, out, logsumexp, scratch)

    workers.run(problem.blocks(), attend, problem.threads, problem.like)


def needs_shift(problem: Problem) -> bool:
    """Whether scores may be too large to exponentiate as they are: |q · k| ≤ ‖q‖ ‖k‖ (Cauchy and Schwarz).

    Not looked at on a GPU, which would have to be waited for, nor with float masks, of which anything may come.
    """
    mask = problem.mask
    if problem.query.device.type != "cpu" or (mask is not None and mask.is_floating_point()):
        return True
    norms = (torch.linalg.vector_norm(x, dim=-1, dtype=problem.like.dtype) for x in (problem.query, problem.key))
    longest_query, longest_key = (norm.amax().item() for norm in norms)
    # not "≥": NaN must not pass for small
    return not abs(tile.scaled(problem)) * longest_query * longest_key < SAFE


def _attend(problem: Problem, block: Block, shifts: bool, out: Tensor, logsumexp: Tensor, scratch: Scratch) -> None:
    """One block of queries."""
    query = tile.query_rows(problem, block, scratch)
    heads, R, _ = query.shape
    summed = scratch("summed", heads, R, problem.value.shape[-1])
    total = highest = None
    for keys in problem.key_tiles(block):
        key = tile.keys_of(problem, problem.key, "key", block, keys, scratch)
        value = tile.keys_of(problem, problem.value, "value", block, keys, scratch)
        weights = tile.exponents(problem, block, keys, query, key, scratch)
        if shifts:
            above = weights.amax(-1, keepdim=True).clamp_(min=tile.lowest(problem))
            if highest is not None and total is not None:
                above = torch.maximum(above, highest)
                shrink = tile.exp_(problem, highest - above)
                total.mul_(shrink)
                summed.mul_(shrink)
            highest = above
            weights.sub_(highest)
        tile.exp_(problem, weights)
        part = weights.sum(-1, keepdim=True)
        if problem.dropout_p > 0:
            weights.mul_(tile.keep(problem, block, keys, scratch))
        if total is None:
            total = part
            torch.bmm(weights, value, out=summed)
        else:
            total.add_(part)
            summed.baddbmm_(weights, value)
    _finish(problem, block, summed, total, highest, out, logsumexp)


def _finish(
    problem: Problem,
    block: Block,
    summed: Tensor,
    total: Tensor | None,
    highest: Tensor | None,
    out: Tensor,
    logsumexp: Tensor,
) -> None:
    """Divides by the sum of the weights, and writes the block's rows."""
    rows, row_logs = problem.queries(out, block), problem.queries(logsumexp, block)
    if total is None:  # no query of the block may attend to any key
        rows.zero_()
        row_logs.fill_(float("inf"))
        return
    share = tile.keep_share(problem) or 1.0
    # a row of zeros stays zero
    summed.div_((total * share).clamp_(min=torch.finfo(total.dtype).tiny))
    rows.copy_(summed.view(rows.shape))
    is_float = problem.mask is not None and problem.mask.is_floating_point()
    logs = total.log() if is_float else total.log2()
    if highest is not None:
        logs.add_(highest)
    row_logs.copy_(logs.masked_fill_(total == 0, float("inf")).view(row_logs.shape))
