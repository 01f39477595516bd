"""What reads the sum of a language model's blocks, one token of each text: a normalization and the maps behind it.

Several maps of the same are one product with their matrices one above the other. An RMSNorm's γ is in them as well:
W (γ ẑ) = (W γ) ẑ. Both need a copy, which is made where it takes less time than it saves.

Shapes: R texts, n features, D features of a head.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from scratch_transformer import nn
from scratch_transformer.generation.affine import Affine
from scratch_transformer.precision import widen

SMALL = 1 << 18
"""Elements of the matrices that are copied: more take as long as a whole text's operations."""

Rows = Callable[[Tensor], Tensor]


class LayerNorm:
    """Of rows x (…, n), an `nn.LayerNorm`. gain: what is left to the maps behind `plain`: nothing."""

    gain: Tensor | None = None

    def __init__(self, norm: nn.LayerNorm) -> None:
        self.shape, self.eps = norm.normalized_shape, norm.eps
        self.weight, self.bias = widen(norm.weight), widen(norm.bias)

    def __call__(self, x: Tensor) -> Tensor:
        return torch.layer_norm(x, self.shape, self.weight, self.bias, self.eps)

    plain = __call__


class RMSNorm:
    """Of rows x (…, n), an `nn.RMSNorm`: √n γ u with u = x / √(|x|² + nε). gain: √n γ, (n,)."""

    gain: Tensor

    def __init__(self, norm: nn.RMSNorm) -> None:
        gain = widen(norm.weight)
        n, eps = len(gain), torch.finfo(gain.dtype).eps if norm.eps is None else norm.eps
        self.gain, self.floor = gain * math.sqrt(n), gain.new_full((1,), math.sqrt(n * eps))

    def __call__(self, x: Tensor) -> Tensor:
        return self.plain(x).mul_(self.gain)

    def plain(self, x: Tensor) -> Tensor:
        """u."""
        return x / torch.linalg.vector_norm(x, dim=-1, keepdim=True).hypot_(self.floor)


def normalization(norm: nn.LayerNorm | nn.RMSNorm) -> LayerNorm | RMSNorm:
    """The same as the layer."""
    return LayerNorm(norm) if isinstance(norm, nn.LayerNorm) else RMSNorm(norm)


class Part(NamedTuple):
    """A layer; with D, its outputs, heads of D features, with the pairs of each side by side (`paired`)."""

    layer: nn.Linear
    D: int | None = None


def reading(norm: nn.LayerNorm | nn.RMSNorm, parts: list[Part], rows: int) -> Rows:
    """x (R, n) -> of norm(x) what the parts are, one behind the other; R is at most `rows`."""
    before = normalization(norm)
    if len(parts) > 1 and sum(part.layer.weight.numel() for part in parts) <= SMALL:
        merged = _merged(parts, before.gain).for_rows(rows)
        return lambda x: merged(before.plain(x))
    maps, order = [Affine.of(part.layer).for_rows(rows) for part in parts], _order(parts)
    return lambda x: _beside(maps, before(x), order)


def _merged(parts: list[Part], gain: Tensor | None) -> Affine:
    """The parts as one map of what is yet to be multiplied by gain."""
    maps, order = [Affine.of(part.layer) for part in parts], _order(parts)
    has_bias = any(each.bias is not None for each in maps)
    weight = torch.cat([each.weight for each in maps])
    bias = torch.cat([each.offset() for each in maps]) if has_bias else None
    if order is not None:
        weight, bias = weight[order], None if bias is None else bias[order]
    return Affine(weight if gain is None else weight * gain, bias)


def _beside(maps: list[Affine], u: Tensor, order: Tensor | None) -> Tensor:
    outputs = maps[0](u) if len(maps) == 1 else torch.cat([each(u) for each in maps], dim=-1)
    return outputs if order is None else outputs.index_select(-1, order)


def _order(parts: list[Part]) -> Tensor | None:
    """Where the outputs come from; None: each is where it was."""
    if all(part.D is None for part in parts):
        return None
    sizes = [len(part.layer.weight) for part in parts]
    shares = torch.arange(sum(sizes), device=parts[0].layer.weight.device).split(sizes)
    return torch.cat(
        [s if part.D is None else paired(s.view(-1, part.D)).flatten() for part, s in zip(parts, shares, strict=True)]
    )


def paired(x: Tensor) -> Tensor:
    """Features (…, D) in the order 0, D/2, 1, D/2 + 1, …: what rotary turns pair, side by side."""
    return x.unflatten(-1, (2, -1)).transpose(-1, -2).flatten(-2)
