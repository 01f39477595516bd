"""Activations: one line each, the equations are in `functional`."""

from __future__ import annotations

import warnings

from torch import Tensor
from torch.nn import Module

from scratch_transformer import functional


class ReLU(Module):
    """relu(x) = max(0, x). Drop-in for `torch.nn.ReLU`."""

    __constants__ = ["inplace"]

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """(*) -> (*)."""
        return functional.relu(input, self.inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class GELU(Module):
    """gelu(x) = x Φ(x), exact ("none") or by the tanh approximation ("tanh"). Drop-in for `torch.nn.GELU`.

    Raises:
        RuntimeError: when called, if `approximate` is neither.
    """

    __constants__ = ["approximate"]

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """(*) -> (*)."""
        return functional.gelu(input, self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class SiLU(Module):
    """silu(x) = x σ(x), σ(x) = 1 / (1 + exp(-x)). Drop-in for `torch.nn.SiLU`."""

    __constants__ = ["inplace"]

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """(*) -> (*)."""
        return functional.silu(input, self.inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class Softmax(Module):
    """softmax(x)ᵢ = exp(xᵢ) / Σⱼ exp(xⱼ) along `dim`. Drop-in for `torch.nn.Softmax`.

    Without `dim` torch guesses (0 for 0, 1 or 3 dimensions, otherwise 1) and warns; so does this.
    """

    __constants__ = ["dim"]

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("dim", None)

    def forward(self, input: Tensor) -> Tensor:
        """(*) -> (*)."""
        dim = self.dim
        if dim is None:
            message = (
                "Implicit dimension choice for softmax has been deprecated. Change the call to include dim=X as an "
                "argument."
            )
            warnings.warn(message, stacklevel=4)  # at whoever calls the module, beyond two frames of torch.nn.Module
            dim = 0 if input.dim() in (0, 1, 3) else 1
        return functional.softmax(input, dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"
