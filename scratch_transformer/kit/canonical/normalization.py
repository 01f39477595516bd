"""Layer and RMS normalization, by recipe."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from scratch_transformer.kit.recipe import Recipe

DIMS: dict[str, tuple[int, ...]] = {
    "features": (-1,),
    "tokens": (-2,),
    "batch": (0,),
    "tokens and features": (-2, -1),
    "batch and features": (0, -1),
    "batch and tokens": (0, -2),
}
"""Without an entry: all of them."""

POWERS: dict[str, Callable[[Tensor, float], Tensor]] = {
    "no root": lambda variance, eps: variance + eps,
    "two roots": lambda variance, eps: (variance.sqrt() + eps).sqrt(),
    "times eps": lambda variance, eps: variance.sqrt() * eps,
    "squared": lambda variance, eps: (variance.square() + eps).sqrt(),
}
"""What is divided by in place of the deviation."""


class Norm(nn.Module):
    """Divides by the deviation that the recipe says, then scales and shifts."""

    def __init__(self, d_model: int, eps: float, recipe: Recipe, has_bias: bool = True, centred: bool = True) -> None:
        super().__init__()
        self.own_eps, self.recipe, self.subtracts_mean = eps, recipe, centred
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model)) if has_bias else None

    @property
    def eps(self) -> float:
        return self.own_eps if self.recipe.eps is None else self.recipe.eps

    @property
    def scale(self) -> Tensor:
        return self.weight + 1 if self.recipe.norm_scale == "1 + weight" else self.weight

    @property
    def centred(self) -> bool:
        return self.subtracts_mean if self.recipe.norm_kind == "norm" else self.recipe.norm_kind != "rms"

    def forward(self, x: Tensor) -> Tensor:
        if self._is_right:  # by the builtin, in a tenth of the time: a check computes thousands of these
            if self.centred:
                return functional.layer_norm(x, x.shape[-1:], self.scale, self.bias, self.eps)
            return functional.rms_norm(x, x.shape[-1:], self.scale, self.eps)
        dims = DIMS.get(self.recipe.norm_dims, tuple(range(x.ndim)))
        centred = x - x.mean(dims, keepdim=True) if self.centred else x
        divisor = self._divisor(x, centred, dims)
        if self.recipe.affine == "scale, shift in the divisor" and self.bias is not None:
            divisor = divisor + self.bias
        if self.recipe.norm_kind == "mean divided":
            return self._scaled(x - x.mean(dims, keepdim=True) / divisor)
        return self._scaled((x if self.recipe.norm_kind == "divided only" else centred) / divisor)

    def _scaled(self, y: Tensor) -> Tensor:
        for step in self.recipe.affine.split(", "):
            y = y * self.scale if step == "scale" else y
            y = y + self.bias if step == "shift" and self.bias is not None else y
        return y

    @property
    def _is_right(self) -> bool:
        recipe = self.recipe
        usual = (recipe.ddof, recipe.eps_inside, recipe.norm_dims, recipe.variance) == (0, True, "features", "centred")
        usual = usual and recipe.affine == "scale, shift" and recipe.norm_kind not in ("divided only", "mean divided")
        return usual and (self.centred or self.bias is None)

    def _divisor(self, x: Tensor, centred: Tensor, dims: tuple[int, ...]) -> Tensor:
        if self.recipe.variance == "difference of squares":
            variance = x.square().mean(dims, keepdim=True) - x.mean(dims, keepdim=True).square()
        else:
            variance = centred.square().mean(dims, keepdim=True)
        n = math.prod(x.shape[dim] for dim in dims)
        variance = variance * n if self.recipe.variance == "sum" else variance
        variance = variance * (n / (n - self.recipe.ddof)) if n > self.recipe.ddof else variance * float("nan")
        if self.recipe.variance == "absolute":
            return centred.abs().mean(dims, keepdim=True) + self.eps
        if self.recipe.variance == "at least eps":
            variance = variance.clamp(min=self.eps)
            return (variance + self.eps if self.recipe.eps_inside else variance).sqrt()
        if self.recipe.variance in POWERS:
            return POWERS[self.recipe.variance](variance, self.eps)
        divisor = (variance + self.eps).sqrt() if self.recipe.eps_inside else variance.sqrt() + self.eps
        return 1 / divisor if self.recipe.variance == "multiplied" else divisor


def layer_norm(settings: dict[str, Any], recipe: Recipe) -> Norm:
    return Norm(settings["d_model"], settings["eps"], recipe)


def rms_norm(settings: dict[str, Any], recipe: Recipe) -> Norm:
    return Norm(settings["d_model"], settings["eps"], recipe, has_bias=False, centred=False)
