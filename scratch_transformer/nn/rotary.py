"""Rotary positions."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import Module

from scratch_transformer import checks, functional
from scratch_transformer.functional import RotaryScaling
from scratch_transformer.precision import HALF_PRECISION


class RotaryEmbedding(Module):
    """Every pair of features, turned by an angle that grows with the position. Source: Su et al. 2021, section 3.2.2.

    d: the features of a head, even. base, scaling: how fast the pairs turn, as in `functional.rotary_turns`.
    interleaved: pair neighbours, as the paper does, not the two halves. It has no parameters and no state.

    Raises:
        ValueError: d is odd or not positive, or base is not positive.
    """

    def __init__(
        self, d: int, base: float = 10_000.0, scaling: RotaryScaling | None = None, interleaved: bool = False
    ) -> None:
        super().__init__()
        checks.check_rotary("RotaryEmbedding", d, base)
        self.d = d
        self.base = base
        self.scaling = scaling
        self.interleaved = interleaved

    def turns(self, positions: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
        """Positions (L,), or (B, L) for all heads of each sample -> (2, L, d/2) or (2, B, 1, L, d/2), for any layer.

        dtype: of what is to be turned. Half precision is turned in float32.
        """
        positions = positions.unsqueeze(1) if positions.dim() > 1 else positions
        turns = functional.rotary_turns(positions, self.d, self.base, self.scaling)
        return turns.to(torch.float32 if dtype in HALF_PRECISION else dtype)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """x (B, h, L, d), positions (L,) or (B, L) -> x turned.

        Raises:
            RuntimeError: `x` is not floating-point, does not have d features, or positions are not one for each token.
        """
        return functional.rotary(x, self.turns(positions), self.interleaved)

    def extra_repr(self) -> str:
        return f"{self.d}, base={self.base}, scaling={self.scaling}, interleaved={self.interleaved}"
