"""A call of attention in the shape that tiles are cut from, and how large the tiles are.

Shapes: B batch, K heads of key and value, G query heads that share one of them, T queries, S keys, D width of a query
or key, Dv width of a value.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from scratch_transformer.precision import HALF_PRECISION

# Scores of a tile per thread: two tiles of float32, in the backward pass, fit a core's share of the caches.
TILE = 1 << 19
TILE_ON_GPU = 1 << 25
QUERIES = 128
QUERIES_SHORT = 64
SHORT = 512
KEYS = 2048
# Multiplications and additions per thread below which threads that wait for each other beat threads to be woken.
FEW_FLOPS = 1.5e9


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

    @property
    def like(self) -> Tensor:
        """What computing is done in: an empty tensor of that dtype, on that device."""
        dtype = torch.float32 if self.query.dtype in HALF_PRECISION else self.query.dtype
        return self.query.new_empty(0, dtype=dtype)

    @property
    def threads(self) -> int:
        """How many threads take blocks; with one, every operation is spread over all of torch's."""
        B, K, G, T, D = self.query.shape
        usual = torch.get_num_threads()
        flops = 2 * B * K * G * T * self.key.shape[2] * (D + self.value.shape[-1])
        return usual if self.query.device.type == "cpu" and flops > usual * FEW_FLOPS else 1

    @property
    def queries_per_block(self) -> int:
        """Short blocks waste less beyond the diagonal, and cost more where there is much before it."""
        is_short = self.upper is not None and self.key.shape[2] <= SHORT
        return QUERIES_SHORT if is_short else QUERIES

    def blocks(self) -> list[Block]:
        """All queries, cut into blocks: those of the same heads one after the other."""
        T = self.query.shape[3]
        step = self.queries_per_block
        return [
            Block(group.b, group.h0, group.h1, t0, min(t0 + step, T))
            for group in self.groups()
            for t0 in range(0, T, step)
        ]

    def groups(self, at_least: int = 1) -> list[Block]:
        """All heads, several at a time where that makes a tile, in at least so many groups if there are as many heads."""
        B, K, _, T, _ = self.query.shape
        step = max(1, min(self._heads_per_tile(), K, B * K // at_least))
        return [Block(b, h0, min(h0 + step, K), 0, T) for b in range(B) for h0 in range(0, K, step)]

    def _heads_per_tile(self) -> int:
        if self.dropout_p > 0:
            return 1  # what is dropped must not depend on the number of threads
        _, _, G, T, _ = self.query.shape
        tile = G * min(self.queries_per_block, T) * min(KEYS, self.key.shape[2])
        if self.query.device.type != "cpu":
            return TILE_ON_GPU // tile
        return TILE * (1 if self.threads > 1 else torch.get_num_threads()) // tile

    def key_tiles(self, block: Block) -> Iterator[slice]:
        """The keys that any query of a block may attend to, a tile at a time."""
        S = self.key.shape[2]
        start = 0 if self.lower is None else max(0, block.t0 + self.lower)
        stop = S if self.upper is None else min(S, block.t1 + self.upper)
        for s0 in range(start, stop, KEYS):
            yield slice(s0, min(s0 + KEYS, stop))

    def queries(self, x: Tensor, block: Block) -> Tensor:
        """A block of query, or of anything of its shape (B, K, G, T, …): a view (heads, G, queries, …)."""
        return x[block.b, block.h0 : block.h1, :, block.t0 : block.t1]

    def mask_tile(self, x: Tensor, block: Block, keys: slice) -> Tensor:
        """A tile of the mask, or of anything of its shape: a view, of length 1 where the mask is."""
        wanted = (slice(block.b, block.b + 1), slice(block.h0, block.h1), slice(None), slice(block.t0, block.t1), keys)
        one = slice(0, 1)
        return x[tuple(one if size == 1 else part for size, part in zip(x.shape, wanted, strict=True))][0]

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
    tensors = {"query": problem.query, "key": problem.key, "value": problem.value}
    if problem.mask is not None:
        tensors["mask"] = problem.mask
    merged = {}
    for name, x in tensors.items():
        if x.shape[:2] != problem.query.shape[:2] and x.shape[:2] != (1, 1):
            return problem
        if x.shape[0] != 1 and x.stride(0) != x.shape[1] * x.stride(1):
            return problem
        merged[name] = x.flatten(0, 1).unsqueeze(0)
    return replace(problem, **merged)


def scaled(problem: Problem) -> float:
    """What scores are multiplied with so that 2 to their power is wanted: exp2 takes half the time of exp.

    Float masks stay in the base e, in which entries as low as the dtype has them are still finite.
    """
    is_float = problem.mask is not None and problem.mask.is_floating_point()
    return problem.scale * (1.0 if is_float else math.log2(math.e))
