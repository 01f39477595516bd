"""The affine maps and normalizations of a decoding step, with their neighbours merged into them.

A step of one token is so small that what it costs is the number of its tensor operations. Some need not be done for
every token, because an affine map of an affine map is one:

    behind a normalization     W (γ ẑ + β) + b = (W γ) ẑ + (W β + b)
    before a normalization     (W y + b) less its mean = (C W) y + C b, C = 1 - (the mean of all features)
    two maps of the same y     one product with both matrices, one above the other

Half-precision weights become float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from scratch_transformer.model import LayerNormalization, ResidualConnection
from scratch_transformer.nn import Linear
from scratch_transformer.precision import widen

CACHED = 1 << 18
"""Elements of a matrix that stays in a core's cache."""


class Normalization:
    """`model.LayerNormalization` of rows x (R, n) without their mean: γ √n u + β with u = x / √(|x|² + nε)."""

    def __init__(self, norm: LayerNormalization) -> None:
        n = len(norm.alpha)
        self.gain, self.bias = widen(norm.alpha) * math.sqrt(n), widen(norm.bias)
        self.share, self.floor = 1 / n, torch.full_like(self.gain[:1], math.sqrt(n * norm.eps))

    def centred(self, x: Tensor) -> Tensor:
        """x less the mean of each row."""
        return torch.sub(x, x.sum(-1, keepdim=True), alpha=self.share)

    def direction(self, x: Tensor) -> Tensor:
        """u."""
        return x / torch.linalg.vector_norm(x, dim=-1, keepdim=True).hypot_(self.floor)

    def __call__(self, x: Tensor) -> Tensor:
        return torch.addcmul(self.bias, self.direction(x), self.gain)


class Affine:
    """y -> y Wᵀ + b for rows y (R, in). weight: W, (out, in). bias: b, (out,)."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        self.weight, self.bias = weight, bias
        # one row times a matrix takes as long as reading the matrix, which goes fastest along its longer side
        is_wide = weight.numel() <= CACHED and weight.shape[0] > weight.shape[1]
        self.matrix = weight.T.contiguous() if is_wide else weight.T

    @classmethod
    def of(cls, layer: Linear) -> Affine:
        """The same as the layer."""
        bias = layer.weight.new_zeros(len(layer.weight)) if layer.bias is None else layer.bias
        return cls(widen(layer.weight), widen(bias))

    @classmethod
    def beside(cls, maps: list[Affine], h: int) -> Affine:
        """Several maps as one, head by head: for each of h heads the outputs of the first, of the second, ..."""
        weights = torch.stack([each.weight.unflatten(0, (h, -1)) for each in maps], dim=1)
        biases = torch.stack([each.bias.unflatten(0, (h, -1)) for each in maps], dim=1)
        return cls(weights.flatten(0, 2), biases.flatten())

    def __call__(self, y: Tensor) -> Tensor:
        return torch.addmm(self.bias, y, self.matrix)

    def times(self, factor: float) -> Affine:
        """factor · (y Wᵀ + b)."""
        return Affine(self.weight * factor, self.bias * factor)

    def behind(self, norm: Normalization) -> Affine:
        """Of `norm.direction(x)` what this is of `norm(x)`."""
        return Affine(self.weight * norm.gain, torch.addmv(self.bias, self.weight, norm.bias))

    def centred(self) -> Affine:
        """y Wᵀ + b less its mean."""
        return Affine(self.weight - self.weight.mean(0), self.bias - self.bias.mean())


class Residual:
    """`model.ResidualConnection` without dropout, around a sublayer that begins with `reading` and ends with `writing`.

    Pre-norm, x is only ever looked at through normalizations, which take out its mean. So it never has one: it begins
    `centred`, and whatever is added to it is. Post-norm, nothing can be merged.
    """

    def __init__(self, connection: ResidualConnection) -> None:
        self.norm_first, self.norm = connection.norm_first, Normalization(connection.norm)

    def reading(self, layer: Linear) -> Affine:
        return Affine.of(layer).behind(self.norm) if self.norm_first else Affine.of(layer)

    def writing(self, layer: Linear) -> Affine:
        return Affine.of(layer).centred() if self.norm_first else Affine.of(layer)

    def __call__(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.norm_first:
            return sublayer(self.norm.direction(x)).add_(x)
        return self.norm(self.norm.centred(sublayer(x).add_(x)))
