"""What the attention core is asked for in a benchmark: its sizes, mask and direction, and its inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

Variant = Literal["none", "dropout", "mask", "padding", "window"]
Direction = Literal["forward", "backward", "both"]


@dataclass(frozen=True)
class Inputs:
    """Q (B, H, T, D), K and V (B, G, S, D), a mask that broadcasts to (B, H, T, S), dO (B, H, T, D)."""

    query: Tensor
    key: Tensor
    value: Tensor
    attn_mask: Tensor | None
    upstream: Tensor


@dataclass(frozen=True)
class Problem:
    """softmax(Q Kᵀ / √D + mask) V, forward, backward or both.

    B: batch. H: heads of the queries, G: of keys and values (as many, unless given). T: queries, S: keys (as many).
    D: width of a head. variant: which weights are masked or dropped, see `masking.mask`.
    """

    B: int
    H: int
    T: int
    D: int
    dtype: str = "float32"
    direction: Direction = "forward"
    is_causal: bool = False
    variant: Variant = "none"
    S: int = 0
    G: int = 0

    @property
    def keys(self) -> int:
        """S, as it is."""
        return self.S or self.T

    @property
    def groups(self) -> int:
        """G, as it is."""
        return self.G or self.H

    @property
    def dropout_p(self) -> float:
        """With this probability a weight is dropped."""
        return 0.1 if self.variant == "dropout" else 0.0
