"""Few queries or few keys in bfloat16, as in writing text token by token: all scores of some heads at a time.

Keys and values have to be read: that takes the time. So they are touched as little as possible: there are no sums to
scale down whenever a tile of keys has a higher score, and values are not widened. The weights, divided by their sum,
are rounded to bfloat16 and multiplied with the values as they are: the processor sums up in float32 and rounds the
result once. The builtin rounds the same. Scores are computed as ever, from widened keys, a tile at a time.

All scores of a query and a head of keys are held: no more than `FEW` for each key, or `FEW_KEYS` for each query.
"""

from __future__ import annotations

import torch
from torch import Tensor

from scratch_transformer.attention.tiled import products, tile, workers
from scratch_transformer.attention.tiled.problem import Block, Problem
from scratch_transformer.attention.tiled.workers import Scratch

# Queries that share a key, or keys.
FEW, FEW_KEYS = 64, 512
# Scores that are held at a time, unless a single head has more.
HELD = 1 << 21
# Numbers of a tile of keys: 2 MiB, once widened. Of few heads it has more keys.
WIDENED = 1 << 19


def suits(dtype: torch.dtype, device: torch.device, rows: int, keys: int, dropout_p: float) -> bool:
    """Whether a call is computed here. rows: queries that share a key, of all heads that do.

    Dropout follows from the tiles, as the backward pass has them.
    """
    is_few = (rows <= FEW or keys <= FEW_KEYS) and dropout_p == 0
    return is_few and dtype == torch.bfloat16 and device.type == "cpu" and products.multiplies_bfloat16()


def forward(problem: Problem, out: Tensor, norms: Tensor) -> None:
    """Fills out and norms as `forward.forward` does."""

    def attend(block: Block, scratch: Scratch) -> None:
        _attend(problem, block, problem.queries(out, block), problem.queries(norms, block), scratch)

    heads = max(1, HELD // (problem.rows * problem.key.shape[2]))
    with products.asked_for(problem.way):
        workers.run(problem.blocks(heads), attend, problem.like, problem.flops)


def _attend(problem: Problem, block: Block, out: Tensor, norms: Tensor, scratch: Scratch) -> None:
    """One block of queries. out: (heads, G, queries, Dv)."""
    tiles = problem.key_tiles(block, WIDENED // ((block.h1 - block.h0) * problem.key.shape[-1]))
    if not tiles:  # the band leaves no key to any query
        out.zero_()
        norms.zero_()
        return
    scores = _scores(problem, block, tiles, scratch)
    highest = scores.amax(-1, keepdim=True).clamp_(min=tile.lowest(problem))
    weights = tile.exp_(problem, scores.sub_(highest))
    total = weights.sum(-1, keepdim=True).clamp_(min=1)  # the highest score alone adds 1, if there is any
    value = problem.value[block.heads][:, tiles[0].start : tiles[-1].stop]
    rounded = scratch("weights", *weights.shape, dtype=value.dtype).copy_(weights.div_(total))
    product = scratch("product", *weights.shape[:2], value.shape[-1], dtype=value.dtype)
    out.copy_(torch.bmm(rounded, value, out=product).view(out.shape))
    norms.copy_(torch.cat([highest, total], -1).view(norms.shape))


def _scores(problem: Problem, block: Block, tiles: list[slice], scratch: Scratch) -> Tensor:
    """Those of all tiles beside each other: (heads, G · queries, keys)."""
    query = tile.query_rows(problem, block, scratch)

    def of(keys: slice) -> Tensor:
        key = tile.keys_of(problem.key, "key", block, keys, scratch)
        return tile.exponents(problem, block, keys, query, key, scratch)

    if len(tiles) == 1:
        return of(tiles[0])
    start = tiles[0].start
    scores = scratch("all scores", *query.shape[:2], tiles[-1].stop - start)
    for keys in tiles:
        scores[..., keys.start - start : keys.stop - start] = of(keys)
    return scores
