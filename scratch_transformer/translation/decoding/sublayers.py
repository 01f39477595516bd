"""What layers of a merged model are made of: normalization, the sum around a sublayer, attention of all heads.

Shapes: B sources, h heads, S source length, K queries of each head.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from scratch_transformer import masks
from scratch_transformer.generation.affine import Affine
from scratch_transformer.model import LayerNormalization, MultiHeadAttentionBlock, ResidualConnection
from scratch_transformer.precision import widen


class Normalization:
    """`model.LayerNormalization`."""

    def __init__(self, norm: LayerNormalization) -> None:
        self.shape, self.eps = list(norm.alpha.shape), norm.eps
        self.gain, self.bias = widen(norm.alpha), widen(norm.bias)

    def __call__(self, x: Tensor) -> Tensor:
        return torch.layer_norm(x, self.shape, self.gain, self.bias, self.eps)


class Residual:
    """`model.ResidualConnection` without dropout, around a sublayer f that is called with x and u for x + f(u)."""

    def __init__(self, connection: ResidualConnection) -> None:
        self.norm_first, self.norm = connection.norm_first, Normalization(connection.norm)

    def __call__(self, x: Tensor, added: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        return added(x, self.norm(x)) if self.norm_first else self.norm(added(x, x))


def joined(block: MultiHeadAttentionBlock) -> Affine:
    """Queries, times 1/√d_k, keys and values of the same rows as one map, head by head."""
    query, key, value = map(Affine.of, (block.w_q, block.w_k, block.w_v))
    return Affine.beside([query.times(scale(block)), key, value], block.h)


def scale(block: MultiHeadAttentionBlock) -> float:
    """1/√d_k."""
    return math.sqrt(block.h / len(block.w_q.weight))


def additive(source_mask: Tensor, values: Tensor) -> Tensor:
    """0 where a token may be attended to, -inf where not: (B, 1, 1, S) -> (B·h, 1, S), of values (B·h, S, d_k).

    Values of a source of padding alone become zero, and so does what is attended to, as in `attention`.
    """
    source_mask = source_mask.expand(-1, len(values) // len(source_mask), -1, -1).flatten(0, 1)
    is_empty = ~source_mask.any(dim=-1, keepdim=True)
    values.masked_fill_(is_empty, 0)
    return masks.to_additive(source_mask | is_empty, values.dtype)


def attended(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """query (B·h, K, d_k), keys (B·h, d_k, S), values (B·h, S, d_k), mask of `additive` -> (B·h, K, d_k)."""
    scores = query.bmm(keys) if mask is None else torch.baddbmm(mask, query, keys)
    return scores.softmax(-1).bmm(values)
