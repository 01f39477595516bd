"""Affine maps of few rows, for decoding: what they cost is the reading of the matrix.

A matrix too large for a core's cache is read fastest as it is stored, row by row: a share of its rows for every
thread, in one batch of products. MKL has another way for a product that is alone, so there are always two shares. On
some processors that way is slower; on others, for few rows, it is several times as fast, and taken. A small matrix
costs the operation itself, which a copy in the order (in, out) makes a little shorter.

Half-precision weights become float32.
"""

from __future__ import annotations

import functools
import math
from functools import cached_property

import torch
from torch import Tensor

from scratch_transformer.attention.tiled.products import is_faster
from scratch_transformer.nn import Linear
from scratch_transformer.precision import widen

CACHED = 1 << 17
"""Elements of a matrix that stays in a core's cache."""
FEW = 64
"""Rows that take hardly longer to multiply than the matrix takes to read."""
ALONE = 4
"""Rows up to which it depends on the processor whether shares are faster."""
FEWEST = 2
"""Rows for which a small matrix is worth being turned."""


class Affine:
    """y -> y Wᵀ + b for rows y (R, in). weight: W, (out, in). bias: b, (out,), or None."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight, self.bias = weight, bias

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

    def for_rows(self, count: int) -> Affine:
        """The same, fastest for so many rows, or a little fewer."""
        if self.weight.device.type != "cpu":
            return self
        if self.weight.numel() > CACHED:
            return self.shared if count <= FEW and (count > ALONE or shares_pay()) else self
        return self.turned if count <= FEWEST else self

    @cached_property
    def shared(self) -> Affine:
        """The same by `Shared`."""
        return Shared(self.weight, self.bias)

    @cached_property
    def turned(self) -> Affine:
        """The same by `Turned`."""
        return Turned(self.weight, self.bias)

    def __call__(self, y: Tensor) -> Tensor:
        return y.mm(self.weight.T) if self.bias is None else torch.addmm(self.bias, y, self.weight.T)

    def added(self, x: Tensor, y: Tensor) -> Tensor:
        """x + y Wᵀ + b."""
        return torch.addmm(x, y, self.weight.T) if self.bias is None else self(y).add_(x)

    def times(self, factor: float) -> Affine:
        """factor · (y Wᵀ + b)."""
        return Affine(self.weight * factor, None if self.bias is None else self.bias * factor)

    def offset(self) -> Tensor:
        """b, also where it is zero."""
        return self.weight.new_zeros(len(self.weight)) if self.bias is None else self.bias


class Turned(Affine):
    """An `Affine` with the matrix in the order (in, out)."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__(weight, bias)
        self.matrix = weight.T.contiguous()

    def __call__(self, y: Tensor) -> Tensor:
        return y.mm(self.matrix) if self.bias is None else torch.addmm(self.bias, y, self.matrix)

    def added(self, x: Tensor, y: Tensor) -> Tensor:
        """x + y Wᵀ + b."""
        return torch.addmm(x, y, self.matrix) if self.bias is None else self(y).add_(x)


class Shared(Affine):
    """An `Affine` with the rows of the matrix, where they are, shared out: n times p of them, (n, p, in).

    Where n shares are none of equal size there are two, and one row is in both.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__(weight, bias)
        out, in_ = weight.shape
        self.n = max(2, math.gcd(out, torch.get_num_threads()))
        self.p = -(-out // self.n)
        step = (out - self.p) // (self.n - 1)
        self.shares = weight.contiguous().as_strided((self.n, self.p, in_), (step * in_, in_, 1))
        self.is_even = self.n * self.p == out
        self.first = None if bias is None or not self.is_even else bias.view(self.n, self.p, 1)

    def __call__(self, y: Tensor) -> Tensor:
        if self.first is not None:
            return self._joined(torch.baddbmm(self.first, self.shares, self._columns(y)))
        product = self._joined(self.shares.bmm(self._columns(y)))
        return product if self.bias is None else product.add_(self.bias)

    def added(self, x: Tensor, y: Tensor) -> Tensor:
        """x + y Wᵀ + b."""
        if self.bias is not None or not self.is_even:
            return self(y).add_(x)
        first = x.view(-1, self.n, self.p).permute(1, 2, 0)
        return self._joined(torch.baddbmm(first, self.shares, self._columns(y)))

    def _columns(self, y: Tensor) -> Tensor:
        """y (R, in) -> (n, in, R), in strides that tell MKL which way it lies, also where R is 1."""
        R, in_ = y.shape
        return y.contiguous().as_strided((self.n, in_, R), (0, 1, in_))

    def _joined(self, parts: Tensor) -> Tensor:
        """parts (n, p, R) -> (R, out)."""
        if not self.is_even:
            parts = torch.cat([parts[0], parts[1, 1:]])
        return parts.view(-1, parts.shape[-1]).T.contiguous()


@functools.cache
def shares_pay() -> bool:
    """Whether one row is multiplied faster by `Shared` on this processor: measured once, in about 20 ms."""
    with torch.inference_mode():
        whole, row = Affine(torch.ones(4096, 512), None), torch.ones(1, 512)
        shared = whole.shared
        return is_faster(lambda: shared(row), lambda: whole(row), times=1)
