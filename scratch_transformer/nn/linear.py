"""The affine map."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter, init

from scratch_transformer import functional


class Linear(Module):
    """y = x Wᵀ + b.

    weight: W, (out_features, in_features), and bias: b, (out_features,), both drawn from U(-1/√in, 1/√in).
    Drop-in for `torch.nn.Linear`.
    """

    __constants__ = ["in_features", "out_features"]
    bias: Tensor | None

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(torch.empty(out_features, in_features, device=device, dtype=dtype))
        self.register_parameter(
            "bias", Parameter(torch.empty(out_features, device=device, dtype=dtype)) if bias else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new parameters, the same as torch's for the same seed."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))  # this slope makes it U(-1/√in, 1/√in)
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """(*, in_features) -> (*, out_features)."""
        return functional.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
