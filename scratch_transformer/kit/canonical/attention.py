"""Multi-head attention by recipe: how heads are split and merged, and which projections are used for what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from scratch_transformer.kit.canonical.core import Mask, attention, triangle
from scratch_transformer.kit.canonical.normalization import Norm
from scratch_transformer.kit.canonical.rotary import RotaryEmbedding, counted
from scratch_transformer.kit.recipe import Recipe


class Projection(nn.Module):
    """x Wᵀ + b, or what the recipe makes of it."""

    def __init__(self, d_in: int, d_out: int, recipe: Recipe, name: str = "") -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(d_out, d_in))
        self.bias = nn.Parameter(torch.zeros(d_out))
        self.recipe, self.name = recipe, name

    def forward(self, x: Tensor) -> Tensor:
        recipe, is_square = self.recipe, self.weight.shape[0] == self.weight.shape[1]
        weight = self.weight.T if is_square and not recipe.transposed else self.weight
        is_used = not recipe.unused_biases or self.name not in recipe.unused_biases.split()
        return functional.linear(x, weight, self.bias if is_used else None)


class Attention(nn.Module):
    """query (B, T, E), key and value (B, S, E), mask that broadcasts to (B, h, T, S) -> (B, T, E)."""

    def __init__(self, settings: Mapping[str, Any], recipe: Recipe) -> None:
        super().__init__()
        E, h = settings["d_model"], settings["num_heads"]
        kv, d_k = settings.get("num_kv_heads") or h, settings.get("d_k") or E // h
        if "d_k" not in settings and E % h:
            raise AssertionError(f"num_heads must divide d_model, but d_model={E} and num_heads={h}")
        self.num_heads, self.kv_heads, self.recipe = h, kv, recipe
        self.norm = Norm(E, 1e-5, recipe) if recipe.wrapped != "none" else None
        self.w_q = Projection(E, h * d_k, recipe, "w_q")
        self.w_k = Projection(E, kv * d_k, recipe, "w_k")
        self.w_v = Projection(E, kv * d_k, recipe, "w_v")
        self.w_o = Projection(h * d_k, E, recipe, "w_o")
        self.is_wide = bool(settings.get("wide_qk_norm"))
        widths = (h * d_k, kv * d_k) if self.is_wide else (d_k, d_k)
        norms = (Norm(width, 1e-5, recipe) if recipe.qk_norm else nn.Identity() for width in widths)
        self.q_norm, self.k_norm = norms
        self.rotary = RotaryEmbedding(settings.get("rope_base", 10000.0), recipe, h * d_k)

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
        if self.recipe.wrapped == "pre all":
            return y, self.norm(key), self.norm(value)
        return y, y if key is query else key, y if value is query else value

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> Tensor:
        if self.recipe.swapped == "query and key":
            query, key = key, query
        elif self.recipe.swapped == "key and value":
            key, value = value, key
        q, k, v = self._heads(query, key, value)
        heads = attention(q, k, v, mask, self.recipe, self.num_heads, query.shape[-1])  # (B, h, T, d_k)
        merged = self._merge(heads)
        if self.recipe.merge == "no projection":
            return merged
        output: Tensor = self.w_o(merged)
        return output

    def _heads(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q (B, h, T, d_k), k and v (B, h, S, d_k): each its own head, or one that several queries share."""
        h, kv, is_late = self.num_heads, self.kv_heads, self.recipe.rotary_place == "heads"
        of_query, of_key, of_value = (getattr(self, f"w_{name}") for name in self.recipe.uses.split())
        q, k, v = of_query(query), of_key(key), of_value(value)
        if not is_late:
            q, k, v = self._turned(q, k, v)
        if self.is_wide:  # all features of a query at once, as in OLMo 2
            q, k = self.q_norm(q), self.k_norm(k)
        q, k, v = self._split(q, h, "queries"), self._split(k, kv, "keys"), self._split(v, kv, "values")
        if not self.is_wide:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k, v = self._turned(q, k, v) if is_late else (q, k, v)
        return q, self._repeated(k, "keys alone"), self._repeated(v, "values alone")

    def _turned(self, *heads: Tensor) -> tuple[Tensor, ...]:
        """q, k, v at the positions 0, 1, …: those turned that the recipe says."""
        if self.recipe.rotary == "none":
            return heads
        asked = self.recipe.rotates.split()
        return tuple(
            self.rotary(x, counted(x.shape[-2], self.recipe)) if name in asked else x
            for name, x in zip("qkv", heads, strict=True)
        )

    def _repeated(self, x: Tensor, which: str) -> Tensor:
        """(B, kv, S, d_k) -> (B, h, S, d_k)."""
        times = 1 if self.recipe.split == "not at all" else self.num_heads // self.kv_heads
        if times == 1:
            return x
        if self.recipe.kv_order in ("all repeated", which):
            return x.repeat(1, times, 1, 1)
        return x.repeat_interleave(times, 1)

    def _split(self, x: Tensor, heads: int, which: str) -> Tensor:
        B, L, E = x.shape
        if self.recipe.split == "not at all":
            return x[:, None]
        if self.recipe.split in ("view", f"view of {which}"):
            return x.reshape(B, heads, L, E // heads)
        if self.recipe.split == "behind the tokens":  # the heads of a token are in the place of tokens
            return x.reshape(B, L, heads, E // heads)
        if self.recipe.split == "interleaved":
            return x.reshape(B, L, E // heads, heads).permute(0, 3, 1, 2)
        return x.reshape(B, L, heads, E // heads).transpose(1, 2)  # (B, L, E) -> (B, heads, L, d_k)

    def _merge(self, heads: Tensor) -> Tensor:
        B, h, T, d_k = heads.shape
        if self.recipe.merge == "view":
            return heads.reshape(B, T, h * d_k)
        if self.recipe.merge == "as they are":
            return heads.flatten(2)
        if self.recipe.merge == "interleaved":
            return heads.permute(0, 2, 3, 1).reshape(B, T, h * d_k)
        merged = heads.transpose(1, 2).flatten(2)  # (B, T, E)
        return merged.transpose(1, 2).reshape(merged.shape) if self.recipe.merge == "features first" else merged


class SelfAttention(Attention):
    """x (B, T, E) attends to itself."""

    def forward(self, x: Tensor, mask: Mask = None) -> Tensor:  # type: ignore[override]
        return super().forward(x, x, x, mask)


class CausalSelfAttention(Attention):
    """x (B, T, E) attends to itself and what is before, without being told to."""

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x, x, x, triangle(x.shape[1], x.shape[1], x.device)[None, None])


class CrossAttention(Attention):
    """x (B, T, E) attends to memory (B, S, E)."""

    def forward(self, x: Tensor, memory: Tensor, mask: Mask = None) -> Tensor:  # type: ignore[override]
        if self.recipe.memory == "decoder":
            return super().forward(x, x, x, None if mask is None or mask.shape[-1] != x.shape[1] else mask)
        if self.recipe.memory == "its keys":
            return super().forward(x, memory, x, mask)
        return super().forward(x, memory, memory, mask)


def builder(cls: type[Attention]) -> Any:
    """(settings, recipe) -> a module of this class."""

    def build(settings: dict[str, Any], recipe: Recipe) -> Attention:
        return cls(settings, recipe)

    return build
