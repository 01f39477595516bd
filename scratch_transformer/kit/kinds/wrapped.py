"""Attention and feed-forward classes that have the normalization, or the residual sum too, inside."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from scratch_transformer.kit.kind import State
from scratch_transformer.kit.recipe import Recipe

WRAPPERS = {
    "": {},
    "residual and norm inside": {"wrapped": "post"},
    "norm and residual inside": {"wrapped": "pre"},
    "norm inside": {"wrapped": "norm"},
}
OF_NETWORKS = {
    "residual inside": {"wrapped": "sum"},
    "norm at the end": {"wrapped": "last"},
}
"""Of a feed-forward network, which may leave the norm or the sum to what it is in."""


def normalized(x: Tensor, state: State) -> Tensor:
    return torch.nn.functional.layer_norm(x, x.shape[-1:], state["norm.weight"], state["norm.bias"])


def builtin_wrapped(x: Tensor, inner: Callable[[Tensor], Tensor], recipe: Recipe, state: State) -> Tensor:
    """What torch.nn makes of a design: inner(normalized or plain x), and what is done to that."""
    y = inner(normalized(x, state) if recipe.wrapped in ("pre", "norm") else x)
    y = x + y if recipe.wrapped in ("pre", "post", "sum") else y
    return normalized(y, state) if recipe.wrapped in ("post", "last") else y
