"""Multi-head attention by recipe: how heads are split and merged, and which projections are used for what."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from scratch_transformer import masks
from scratch_transformer.kit.canonical.core import Mask, attention
from scratch_transformer.kit.canonical.normalization import Norm
from scratch_transformer.kit.recipe import Recipe


class Projection(nn.Module):
    """x Wᵀ + b, or what the recipe makes of it."""

    def __init__(self, d_in: int, d_out: int, recipe: Recipe, name: str = "") -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(d_out, d_in))
        self.bias = nn.Parameter(torch.zeros(d_out))
        self.recipe, self.name = recipe, name

    def forward(self, x: Tensor) -> Tensor:
        is_square = self.weight.shape[0] == self.weight.shape[1]
        y = x @ (self.weight if is_square and not self.recipe.transposed else self.weight.T)
        return y if self.name in self.recipe.unused_biases.split() else y + self.bias


class Attention(nn.Module):
    """query (B, T, E), key and value (B, S, E), mask that broadcasts to (B, h, T, S) -> (B, T, E)."""

    def __init__(self, d_model: int, num_heads: int, recipe: Recipe) -> None:
        super().__init__()
        if d_model % num_heads:
            raise AssertionError(f"num_heads must divide d_model, but {d_model=} and {num_heads=}")
        self.num_heads, self.recipe = num_heads, recipe
        self.norm = Norm(d_model, 1e-5, recipe) if recipe.wrapped != "none" else None
        self.w_q = Projection(d_model, d_model, recipe, "w_q")
        self.w_k = Projection(d_model, d_model, recipe, "w_k")
        self.w_v = Projection(d_model, d_model, recipe, "w_v")
        self.w_o = Projection(d_model, d_model, recipe, "w_o")

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask = None) -> Tensor:
        if self.norm is None:
            return self._attend(query, key, value, mask)
        added = {"value": value, "key": key}.get(self.recipe.residual, query)
        if self.recipe.wrapped == "post":
            return self.norm(added + self._attend(query, key, value, mask))
        attended = self._attend(*self._normalized(query, key, value), mask)
        return attended if self.recipe.wrapped == "norm" else added + attended

    def _normalized(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The queries, and what is the same tensor."""
        assert self.norm is not None
        y = self.norm(query)
        return y, y if key is query else key, y if value is query else value

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> Tensor:
        if self.recipe.swapped == "query and key":
            query, key = key, query
        elif self.recipe.swapped == "key and value":
            key, value = value, key
        q, k, v = self._split(self.w_q(query)), self._split(self.w_k(key)), self._split(self.w_v(value))
        heads = attention(q, k, v, mask, self.recipe, self.num_heads)  # (B, h, T, d_k)
        merged = self._merge(heads)
        if self.recipe.merge == "no projection":
            return merged
        output: Tensor = self.w_o(merged)
        return output

    def _split(self, x: Tensor) -> Tensor:
        B, L, E = x.shape
        if self.recipe.split == "view":
            return x.reshape(B, self.num_heads, L, E // self.num_heads)
        if self.recipe.split == "interleaved":
            return x.reshape(B, L, E // self.num_heads, self.num_heads).permute(0, 3, 1, 2)
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # (B, L, E) -> (B, h, L, d_k)

    def _merge(self, heads: Tensor) -> Tensor:
        B, h, T, d_k = heads.shape
        if self.recipe.merge == "view":
            return heads.reshape(B, T, h * d_k)
        if self.recipe.merge == "interleaved":
            return heads.permute(0, 2, 3, 1).reshape(B, T, h * d_k)
        return heads.transpose(1, 2).flatten(2)  # (B, T, E)


class SelfAttention(Attention):
    """x (B, T, E) attends to itself."""

    def forward(self, x: Tensor, mask: Mask = None) -> Tensor:  # type: ignore[override]
        return super().forward(x, x, x, mask)


class CausalSelfAttention(Attention):
    """x (B, T, E) attends to itself and what is before, without being told to."""

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x, x, x, masks.causal(x.shape[1], device=x.device)[None, None])


class CrossAttention(Attention):
    """x (B, T, E) attends to memory (B, S, E)."""

    def forward(self, x: Tensor, memory: Tensor, mask: Mask = None) -> Tensor:  # type: ignore[override]
        if self.recipe.memory == "decoder":
            return super().forward(x, x, x, None if mask is None or mask.shape[-1] != x.shape[1] else mask)
        return super().forward(x, memory, memory, mask)


def builder(cls: type[Attention]) -> Any:
    """(settings, recipe) -> a module of this class."""

    def build(settings: dict[str, Any], recipe: Recipe) -> Attention:
        return cls(settings["d_model"], settings["num_heads"], recipe)

    return build
