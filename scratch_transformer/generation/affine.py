"""The affine maps and normalizations of a decoding step, with their neighbours merged into them.

A step of one token is so small that what it costs is the number of its tensor operations. Some need not be done for
every token, because an affine map of an affine map is one:

    behind a normalization     W (γ ẑ + β) + b = (W γ) ẑ + (W β + b)
    before a normalization     (W y + b) less its mean = (C W) y + C b, C = 1 - (the mean of all features)
    two maps of the same y     one product with both matrices, one above the other

What remains is reading the matrices. For one row, one thread reads them, from (in, out) almost twice as fast as from
(out, in), as a layer stores them. So a copy is made in that order, a piece of it for every thread.

Half-precision weights become float32.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from scratch_transformer.nn import Linear
from scratch_transformer.precision import widen

CACHED = 1 << 18
"""Elements of a matrix that stays in a core's cache."""
FEW = 16
"""Rows that take no longer to multiply than the matrix takes to read."""


class Scaled(Protocol):
    """A normalization: γ times the normalized, and β."""

    @property
    def gain(self) -> Tensor:
        """γ, (n,)."""

    @property
    def bias(self) -> Tensor | None:
        """β, (n,), or None."""


class Normalization:
    """Of rows x (R, n): γ √n u + β with u = x / √(|x|² + nε), the root-mean-square norm.

    Of rows without their mean that is the layer norm. gain, bias: γ and β, (n,); β may be None.
    """

    def __init__(self, gain: Tensor, bias: Tensor | None, eps: float) -> None:
        n = len(gain)
        self.gain, self.bias = widen(gain) * math.sqrt(n), widen(bias)
        self.share, self.floor = 1 / n, torch.full_like(self.gain[:1], math.sqrt(n * eps))

    def centred(self, x: Tensor) -> Tensor:
        """x less the mean of each row."""
        return torch.sub(x, x.sum(-1, keepdim=True), alpha=self.share)

    def direction(self, x: Tensor) -> Tensor:
        """u."""
        return x / torch.linalg.vector_norm(x, dim=-1, keepdim=True).hypot_(self.floor)

    def __call__(self, x: Tensor) -> Tensor:
        u = self.direction(x)
        return u * self.gain if self.bias is None else torch.addcmul(self.bias, u, self.gain)


class Affine:
    """y -> y Wᵀ + b for rows y (R, in). weight: W, (out, in). bias: b, (out,), or None."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight, self.bias = weight, bias

    @cached_property
    def few(self) -> Few:
        """The same for few rows."""
        return Few(self.weight, self.bias)

    def for_rows(self, count: int) -> Affine | Few:
        """The same, ready for so many rows, or for fewer."""
        return self.few if count <= FEW and self.weight.device.type == "cpu" else self

    @classmethod
    def of(cls, layer: Linear) -> Affine:
        """The same as the layer."""
        return cls(widen(layer.weight), widen(layer.bias))

    @classmethod
    def beside(cls, maps: list[Affine], h: int) -> Affine:
        """Several maps as one, head by head: for each of h heads the outputs of the first, of the second, ..."""
        join = lambda parts: torch.cat([part.unflatten(0, (h, -1)) for part in parts], dim=1).flatten(0, 1)  # noqa: E731
        has_bias = any(each.bias is not None for each in maps)
        return cls(join([each.weight for each in maps]), join([each.offset() for each in maps]) if has_bias else None)

    def __call__(self, y: Tensor) -> Tensor:
        ready = self.for_rows(len(y))
        if ready is not self:
            return ready(y)
        return y.mm(self.weight.T) if self.bias is None else torch.addmm(self.bias, y, self.weight.T)

    def added(self, x: Tensor, y: Tensor) -> Tensor:
        """x + y Wᵀ + b."""
        ready = self.for_rows(len(y))
        if ready is not self:
            return ready.added(x, y)
        return torch.addmm(x, y, self.weight.T) if self.bias is None else self(y).add_(x)

    def times(self, factor: float) -> Affine:
        """factor · (y Wᵀ + b)."""
        return Affine(self.weight * factor, None if self.bias is None else self.bias * factor)

    def behind(self, norm: Scaled) -> Affine:
        """Of what `norm` scales what this is of `norm(x)`."""
        bias = self.bias if norm.bias is None else torch.addmv(self.offset(), self.weight, norm.bias)
        return Affine(self.weight * norm.gain, bias)

    def centred(self) -> Affine:
        """y Wᵀ + b less its mean."""
        bias = None if self.bias is None else self.bias - self.bias.mean()
        return Affine(self.weight - self.weight.mean(0), bias)

    def offset(self) -> Tensor:
        """b, also where it is zero."""
        return self.weight.new_zeros(len(self.weight)) if self.bias is None else self.bias


class Few:
    """An `Affine` of few rows on a CPU, of which the reading of the matrix takes the time."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        out, in_ = weight.shape
        n = math.gcd(out, torch.get_num_threads()) if weight.numel() > CACHED else 1
        self.pieces = weight.new_empty(n, in_, out // n)
        for piece, rows in zip(self.pieces, weight.split(out // n), strict=True):
            piece.copy_(rows.T)
        self.matrix, self.bias = self.pieces[0], bias

    def __call__(self, y: Tensor) -> Tensor:
        return self._product(self.bias, y)

    def added(self, x: Tensor, y: Tensor) -> Tensor:
        """x + y Wᵀ + b."""
        return self._product(x, y) if self.bias is None else self(y).add_(x)

    def _product(self, x: Tensor | None, y: Tensor) -> Tensor:
        """x + y Wᵀ, x (R, out), (out,) or None: the products of all pieces at the same time."""
        n, _, part = self.pieces.shape
        if n == 1:
            return y.mm(self.matrix) if x is None else torch.addmm(x, y, self.matrix)
        rows = y.expand(n, -1, -1)
        if x is None:
            parts = rows.bmm(self.pieces)  # (n, R, out / n)
        else:
            parts = torch.baddbmm(x.view(-1, n, part).transpose(0, 1), rows, self.pieces)
        return parts.transpose(0, 1).reshape(len(y), n * part)


class Part(NamedTuple):
    """A layer, the factor of its outputs, and, with D, in another order those of each D: 0, D/2, 1, D/2 + 1, …"""

    layer: Linear
    factor: float = 1.0
    D: int | None = None


def behind(norm: Normalization, parts: list[Part]) -> Affine:
    """Of `norm.direction(x)` what the parts are of `norm(x)`, one above the other: each matrix is read once."""
    weights = [part.layer.weight for part in parts]
    has_bias = norm.bias is not None or any(part.layer.bias is not None for part in parts)
    merged = weights[0].new_empty(sum(map(len, weights)), weights[0].shape[1])
    biases = []
    for part, place in zip(parts, merged.split([len(weight) for weight in weights]), strict=True):
        ordered = _ordered(part.layer.weight, part.D)
        torch.mul(ordered, norm.gain * part.factor, out=place.view(ordered.shape))
        if has_bias:
            own = Affine.of(part.layer).offset()
            bias = own if norm.bias is None else torch.addmv(own, part.layer.weight, norm.bias)
            biases.append(_ordered(bias, part.D).flatten() * part.factor)
    return Affine(merged, torch.cat(biases) if has_bias else None)


def _ordered(x: Tensor, D: int | None) -> Tensor:
    """Rows (n, …) as they are, or each D of them in another order, (n / D, D/2, 2, …): a view."""
    return x if D is None else x.unflatten(0, (-1, 2, D // 2)).transpose(1, 2)
