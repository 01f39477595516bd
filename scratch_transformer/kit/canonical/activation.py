"""Activations by name, and the feed-forward network."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as builtin

from scratch_transformer import functional
from scratch_transformer.kit.canonical.attention import Projection
from scratch_transformer.kit.canonical.base import OfRecipe
from scratch_transformer.kit.canonical.normalization import Norm
from scratch_transformer.kit.recipe import Recipe

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "gelu": builtin.gelu,
    "gelu tanh": lambda x: builtin.gelu(x, approximate="tanh"),
    "quick gelu": lambda x: x * functional.sigmoid(1.702 * x),
    "gelu with 0.44715": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.44715 * x**3))),
    "silu": builtin.silu,
    "relu squared": lambda x: torch.relu(x) ** 2,
    "sigmoid": functional.sigmoid,
    "tanh": torch.tanh,
    "leaky relu": lambda x: torch.where(x < 0, 0.01 * x, x),
    "none": lambda x: x,
}
"""By the builtins, where there are such, in less time: a check computes thousands of these."""


class Activation(OfRecipe):
    def forward(self, x: Tensor) -> Tensor:
        return ACTIVATIONS[self.recipe.activation](x)


class Softmax(OfRecipe):
    """softmax over the last axis, or the one of the recipe: x (B, h, T, S)."""

    axes = {"keys": -1, "queries": -2, "heads": 1, "batch": 0}

    def forward(self, x: Tensor) -> Tensor:
        axis = self.axes[self.recipe.softmax_over]
        if self.recipe.masking == "overflows":
            total = x.exp().sum(axis, keepdim=True)
            return x - total.log() if self.recipe.output == "log-probabilities" else x.exp() / total
        if self.recipe.output == "log-probabilities":
            return functional.log_softmax(x, axis)
        return functional.softmax(x, axis)


class FeedForward(nn.Module):
    """(B, T, d_model) -> the same, with d_ff features in between, which a gate may multiply."""

    def __init__(self, d_model: int, d_ff: int, recipe: Recipe) -> None:
        super().__init__()
        if recipe.gated:
            self.gate = Projection(d_model, d_ff, recipe)
        self.linear1 = Projection(d_model, d_ff, recipe)
        self.linear2 = Projection(d_ff, d_model, recipe)
        self.norm = Norm(d_model, 1e-5, recipe) if recipe.wrapped not in ("none", "sum") else None
        self.recipe = recipe

    def forward(self, x: Tensor) -> Tensor:
        wrapped, norm = self.recipe.wrapped, self.norm
        y = self._between(norm(x) if norm and wrapped in ("pre", "norm") else x)
        y = x + y if wrapped in ("pre", "post", "sum") else y
        return norm(y) if norm and wrapped in ("post", "last") else y

    def _between(self, x: Tensor) -> Tensor:
        act = ACTIVATIONS[self.recipe.activation]
        if self.recipe.gated:
            return self.linear2(self._gated(x))
        if self.recipe.activation_place == "at the end":
            return act(self.linear2(self.linear1(x)))
        if self.recipe.activation_place == "before":
            return self.linear2(self.linear1(act(x)))
        if self.recipe.activation_place == "twice":
            return act(self.linear2(act(self.linear1(x))))
        return self.linear2(act(self.linear1(x)))

    def _gated(self, x: Tensor) -> Tensor:
        """act(x W_gateᵀ) ⊙ (x W_1ᵀ), (B, T, d_ff)."""
        act, place = ACTIVATIONS[self.recipe.activation], self.recipe.activation_place
        gate, up = self.gate(x), self.linear1(x)
        if self.recipe.gate == "the other":
            gate, up = up, gate
        if place == "after the product":
            return act(gate * up)
        up = act(up) if place == "on both" else up
        if self.recipe.gating == "sum":
            return act(gate) + up
        return act(gate) * up


def feed_forward(settings: dict[str, Any], recipe: Recipe) -> FeedForward:
    return FeedForward(settings["d_model"], settings["d_ff"], recipe)
