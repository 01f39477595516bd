"""Dropout."""

from __future__ import annotations

from torch import Tensor
from torch.nn import Module

from scratch_transformer import checks, functional


class Dropout(Module):
    """In training, zero every element with probability p and scale the others by 1 / (1 - p); otherwise the identity.

    Drop-in for `torch.nn.Dropout`: on CPU the same seed drops the same elements.

    Raises:
        ValueError: p is outside [0, 1].
    """

    __constants__ = ["p", "inplace"]

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        checks.check_probability("Dropout", p)
        self.p = p
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """(*) -> (*)."""
        return functional.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"
