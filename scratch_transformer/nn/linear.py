"""The affine map, and several of the same vectors at once."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter, init
from torch.nn.modules import module as torch_module

from scratch_transformer import functional
from scratch_transformer.by_hand import are_taken

ENOUGH_ROWS = 64
"""Vectors from which it takes less time to put matrices side by side than to multiply, and go back, through each."""


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


def together(x: Tensor, *projections: Linear) -> tuple[Tensor, ...]:
    """What each projection makes of x (*, in_features), its own (*, out_features).

    In training, several small products and their gradients take longer than one large one: their matrices are put
    side by side, where nobody looks at a single projection.
    """
    if not _are_joined(x, projections):
        return tuple(project(x) for project in projections)
    weight = torch.cat([project.weight for project in projections])
    bias = None if projections[0].bias is None else torch.cat([project.bias for project in projections])  # type: ignore
    return functional.linear(x, weight, bias).split([project.out_features for project in projections], -1)


def _are_joined(x: Tensor, projections: tuple[Linear, ...]) -> bool:
    parameters = [parameter for project in projections for parameter in (project.weight, project.bias)]
    if not torch.is_grad_enabled() or x.shape[:-1].numel() < ENOUGH_ROWS or not are_taken(x, *parameters):
        return False
    needs_gradients = any(parameter is not None and parameter.requires_grad for parameter in parameters)
    is_one_matrix = all((project.bias is None) == (projections[0].bias is None) for project in projections)
    return needs_gradients and is_one_matrix and not any(map(_is_watched, projections))


def _is_watched(project: Linear) -> bool:
    """Whether it is of a class of its own, or somebody has a hook on it."""
    hooks = (project._forward_hooks, project._forward_pre_hooks, project._backward_hooks, project._backward_pre_hooks)
    return type(project) is not Linear or any(hooks) or torch_module._has_any_global_hook()
