"""A call of attention in the shape that tiles are cut from, and how large the tiles are.

Shapes: B batch, K heads of key and value, G query heads that share one of them, T queries, S keys, D width of a query
or key, Dv width of a value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from scratch_transformer.attention.tiled import products, workers
from scratch_transformer.attention.tiled.products import Way
from scratch_transformer.precision import HALF_PRECISION

# Scores of a tile: 4 MiB of float32, which a third level cache holds. Found with `scratch-transformer bench`.
TILE = 1 << 20
TILE_ON_GPU = 1 << 25
# Queries are what Aᵀ dO and dSᵀ Q sum over: in so many, more than keys, these products take the least time.
QUERIES = 512
KEYS = 256
SHORT = 512
# Queries whose products with a key take as long as reading it.
READING = 16


@dataclass(frozen=True)
class Block:
    """Some queries t0 … t1 - 1 of some heads of one batch entry: the heads h0 … h1 - 1 of keys, G times as many of
    queries."""

    b: int
    h0: int
    h1: int
    t0: int
    t1: int

    @property
    def heads(self) -> tuple[int, slice]:
        """Index of the block's heads in key and value."""
        return self.b, slice(self.h0, self.h1)


@dataclass(frozen=True)
class Problem:
    """query (B, K, G, T, D), key (B, K, S, D), value (B, K, S, Dv), mask (B or 1, K or 1, G or 1, T or 1, S or 1).

    lower, upper: query t may attend to the keys t + lower … t + upper, without limit where None.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    seed: int
    dropout_p: float
    lower: int | None
    upper: int | None
    scale: float

    @cached_property
    def like(self) -> Tensor:
        """What computing is done in: an empty tensor of that dtype, on that device."""
        dtype = torch.float32 if self.query.dtype in HALF_PRECISION else self.query.dtype
        return self.query.new_empty(0, dtype=dtype)

    @cached_property
    def way(self) -> Way:
        """How products are computed."""
        return products.way(self.query.dtype, self.query.device, self.rows)

    @cached_property
    def factors(self) -> torch.dtype:
        """Dtype of what is multiplied in products that are summed up over tiles."""
        return torch.bfloat16 if self.way is Way.ROUNDED else self.like.dtype

    @cached_property
    def has_float_mask(self) -> bool:
        """Whether the mask is added to the scores."""
        return self.mask is not None and self.mask.is_floating_point()

    @cached_property
    def exponent_scale(self) -> float:
        """What q · k is multiplied with so that 2 to its power is wanted: exp2 takes half the time of exp.

        With float masks, e to its power: their entries, as low as the dtype has them, stay finite only as they are.
        """
        return self.scale * (1.0 if self.has_float_mask else math.log2(math.e))

    @cached_property
    def scale_left(self) -> float:
        """What the gradient of the keys is still multiplied with: where queries are scaled, that is most of it."""
        if self.way is not Way.WIDE:
            return self.scale
        return 1.0 if self.has_float_mask else math.log(2)  # scale / exponent_scale, also where both are zero

    @cached_property
    def rows(self) -> int:
        """Queries that share a key, of all heads that do."""
        return self.query.shape[2] * self.query.shape[3]

    @cached_property
    def flops(self) -> float:
        """Multiplications and additions of the two products of the forward pass, or what takes as long.

        For a few queries keys have to be read and widened as for `READING` of them.
        """
        G, width = self.query.shape[2], self.query.shape[-1] + self.value.shape[-1]
        scores = [
            (block.h1 - block.h0) * max(READING, G * (block.t1 - block.t0)) * self._number_of_keys(block)
            for block in self.blocks()
        ]
        return 2.0 * width * sum(scores)

    @cached_property
    def queries_per_block(self) -> int:
        """Long blocks make the best of matrix products; short ones waste less beyond a diagonal."""
        S = self.key.shape[2]
        if self.lower is None and self.upper is None:
            return QUERIES // 2 * self._stretch if S <= SHORT else 2 * QUERIES
        return max(1, QUERIES // (8 if 2 * S <= SHORT else 4 if S <= SHORT else 2))

    @cached_property
    def queries_backward(self) -> int:
        """Of a block going backward, where two tiles are held, and a cache must hold both: no more than half as many.

        But with dropout, which follows from the tiles, as many.
        """
        return self.queries_per_block if self.dropout_p > 0 else min(self.queries_per_block, QUERIES * self._stretch)

    def blocks(self, heads: int | None = None) -> list[Block]:
        """All queries, cut into blocks: those of the same heads one after the other, and the last queries first.

        They have the most keys before a causal diagonal, so the blocks that threads end with are short. heads: as in
        `groups`.
        """
        T, step = self.query.shape[3], self.queries_per_block
        starts = range(0, T, step)
        groups = self.groups(len(starts), heads)
        return [replace(group, t0=t0, t1=min(t0 + step, T)) for group in groups for t0 in reversed(starts)]

    def groups(self, tasks: int = 1, heads: int | None = None) -> list[Block]:
        """All heads, as many at a time as make a tile, but enough groups of so many tasks to share out.

        heads: so many at a time, whatever a tile is.
        """
        B, K, _, T, _ = self.query.shape
        enough = workers.enough() if self.query.device.type == "cpu" else 1
        if self.dropout_p > 0:
            enough = 1  # what is dropped follows from the tiles, and must not depend on the number of threads
        step = max(1, min(heads or self._heads_per_tile(), B * K * tasks // enough))
        return [Block(b, h0, min(h0 + step, K), 0, T) for b in range(B) for h0 in range(0, K, step)]

    def _heads_per_tile(self) -> int:
        tile = self._rows * min(self.keys_per_tile, self.key.shape[2])
        return (TILE if self.query.device.type == "cpu" else TILE_ON_GPU) // tile

    @cached_property
    def keys_per_tile(self) -> int:
        """Many for few queries: such a tile is no larger."""
        return KEYS * self._stretch * max(1, QUERIES // self._rows)

    @cached_property
    def _stretch(self) -> int:
        """How many times as long tiles are: the longer, the fewer products are rounded. Dropout follows from the tiles,
        which must be the same going backward, whatever other threads do then."""
        return 2 if self.way is Way.ROUNDED and self.dropout_p == 0 else 1

    @cached_property
    def _rows(self) -> int:
        """Of a tile, for each head and each key: scores, or numbers of the key where they are more and are widened."""
        _, _, G, T, D = self.query.shape
        rows = G * min(self.queries_per_block, T)
        return max(rows, D) if self.query.dtype in HALF_PRECISION else rows

    def key_tiles(self, block: Block, least: int = 0) -> list[slice]:
        """The keys that any query of a block may attend to, a tile at a time, of at least so many but the last."""
        start, stop = self._key_range(block)
        step = max(self.keys_per_tile, least)
        return [slice(s0, min(s0 + step, stop)) for s0 in range(start, stop, step)]

    def _number_of_keys(self, block: Block) -> int:
        start, stop = self._key_range(block)
        return max(0, stop - start)

    def _key_range(self, block: Block) -> tuple[int, int]:
        S = self.key.shape[2]
        start = 0 if self.lower is None else max(0, block.t0 + self.lower)
        return start, S if self.upper is None else min(S, block.t1 + self.upper)

    def queries(self, x: Tensor, block: Block) -> Tensor:
        """A block of query, or of anything of its shape (B, K, G, T, …): a view (heads, G, queries, …)."""
        return x[block.b, block.h0 : block.h1, :, block.t0 : block.t1]

    def mask_tile(self, x: Tensor, block: Block, keys: slice) -> Tensor:
        """A tile of the mask, or of anything of its shape: a view, of length 1 where the mask is."""

        def part(dim: int, wanted: slice) -> slice:
            return wanted if x.shape[dim] > 1 else slice(None)

        b = block.b if len(x) > 1 else 0
        return x[b, part(1, slice(block.h0, block.h1)), :, part(3, slice(block.t0, block.t1)), part(4, keys)]

    @staticmethod
    def of(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        seed: Tensor | None,
        dropout_p: float,
        lower: int | None,
        upper: int | None,
        scale: float,
    ) -> Problem:
        """From query (B, H, T, D), key (B, K, S, D), value (B, K, S, Dv), mask (B or 1, H or 1, T or 1, S or 1)."""
        H, K = query.shape[1], key.shape[1]
        if mask is not None:
            mask = mask.unsqueeze(2) if mask.shape[1] == 1 else mask.unflatten(1, (K, H // K))
        number = 0 if seed is None else int(seed)
        query = query.unflatten(1, (K, H // K))
        return _merged(Problem(query, key, value, mask, number, dropout_p, lower, upper, scale))


def _merged(problem: Problem) -> Problem:
    """Batch and heads as one dimension where no tensor has to be copied for it: more heads to make a tile of."""
    tensors = [problem.query, problem.key, problem.value, *([] if problem.mask is None else [problem.mask])]
    for x in tensors:
        if x.shape[:2] != problem.query.shape[:2] and x.shape[:2] != (1, 1):
            return problem
        if x.shape[0] != 1 and x.stride(0) != x.shape[1] * x.stride(1):
            return problem
    query, key, value, *mask = (x.flatten(0, 1).unsqueeze(0) for x in tensors)
    return replace(problem, query=query, key=key, value=value, mask=mask[0] if mask else None)
