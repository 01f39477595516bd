"""Residual connections, and the layers of encoder, decoder and decoder-only models, by recipe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from scratch_transformer.kit.canonical.activation import FeedForward
from scratch_transformer.kit.canonical.attention import Attention
from scratch_transformer.kit.canonical.core import Mask, triangle
from scratch_transformer.kit.canonical.normalization import Norm
from scratch_transformer.kit.recipe import Recipe

Sublayer = Callable[[Tensor], Tensor]
FIRST = "first of all"
"""The block's input, among what a sublayer may be mixed up with."""


def connect(
    x: Tensor, sublayer: Sublayer, norm: Sublayer, recipe: Recipe, others: Mapping[str, Tensor] | None = None
) -> Tensor:
    """One sublayer with residual and norm, in the order of the recipe.

    others: tensors that may be in the place of its own, by the recipe's words for them.
    """
    order, others = recipe.norm_order, others or {}
    if order in ("pre", "post"):
        given = norm(x) if order == "pre" else x
        y = summand(given, sublayer(given), recipe, others)
        total = residual(x, y, recipe, others) + y
        total = total if order == "pre" else norm(total)
        return x + total if recipe.residual == "after the norm too" else total
    if order == "before and after":
        return norm(x + sublayer(norm(x)))
    if order == "residual after norm":
        x = norm(x)
        return x + sublayer(x)
    if order == "norm on the output":
        return x + norm(sublayer(x))
    if order == "no residual, post":
        return norm(sublayer(x))
    if order == "no residual, pre":
        return sublayer(norm(x))
    if order == "residual of the norm":
        return norm(x) + sublayer(x)
    if order == "neither":
        return sublayer(x)
    if order == "thrown away":
        sublayer(x)  # what comes after may be given its output
        return x
    assert order == "no norm"
    return x + sublayer(x)


def residual(x: Tensor, y: Tensor, recipe: Recipe, others: Mapping[str, Tensor]) -> Tensor:
    """What is added to the sublayer's output y; x unless the recipe says otherwise."""
    name, x = recipe.residual, others.get("stream", x)
    if name == "block's input too":
        return x + others[FIRST] if FIRST in others else x
    if name == "own output":
        return y
    if name in ("twice", "negative"):
        return x + x if name == "twice" else -x
    return others.get(name, x)


def summand(given: Tensor, y: Tensor, recipe: Recipe, others: Mapping[str, Tensor]) -> Tensor:
    """What is added to the residual: the output y of the sublayer that was given this, or what is in its place."""
    if recipe.summand == "output":
        return y
    places = {"nothing": torch.zeros_like(given), "its input": given, "negative": -y}
    return places.get(recipe.summand, others.get(recipe.summand, y))


class Residual(nn.Module):
    """x, sublayer -> norm(x + sublayer(x)) or x + sublayer(norm(x))."""

    def __init__(self, d_model: int, recipe: Recipe) -> None:
        super().__init__()
        self.norm, self.recipe = Norm(d_model, 1e-5, recipe), recipe

    def forward(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        return connect(x, sublayer, self.norm, self.recipe)


class Layer(nn.Module):
    """What all layers have: norms, self-attention and feed-forward network."""

    def __init__(self, settings: dict[str, Any], recipe: Recipe, norms: int) -> None:
        super().__init__()
        d_model, self.recipe = settings["d_model"], recipe
        self.self_attn = Attention(settings, recipe.within("self_attn"))
        if norms == 3:
            self.cross_attn = Attention(settings, recipe.within("cross_attn"))
        self.feed_forward = FeedForward(d_model, settings["d_ff"], recipe)
        self.norms, self.outputs = norms, list[Tensor]()
        for number in sorted({self.number_of(number) for number in range(1, norms + 1)}):
            self.add_module(f"norm{number}", Norm(d_model, 1e-5, recipe))
        if recipe.memory_norm == "own" and norms == 3:
            self.norm_memory = Norm(d_model, 1e-5, recipe)

    def number_of(self, number: int) -> int:
        """Which norm a sublayer has: its own, or another's; of two sublayers both, or one for both."""
        norms = self.recipe.norms
        if norms == "shared":
            return 1
        return number if norms == "own" or self.norms == 2 else int(norms.split()[number - 1])

    def norm_of(self, number: int) -> nn.Module:
        norm: nn.Module = getattr(self, f"norm{self.number_of(number)}")
        return norm

    def connect(self, x: Tensor, sublayer: Sublayer, number: int, **others: Tensor) -> Tensor:
        """others: besides the output of the sublayer before."""
        if number > 1:
            others["earlier output"] = self.outputs[-1]
        else:
            self.outputs.clear()

        def kept(given: Tensor) -> Tensor:
            self.outputs.append(sublayer(given))
            return self.outputs[-1]

        return connect(x, kept, self.norm_of(number), self.recipe.within(f"norm{number}"), others)

    def side_by_side(self, x: Tensor, *sublayers: Sublayer) -> Tensor:
        """x + f(norm(x)) + g(norm(x)): none is given the other's output."""
        y = x + x if self.recipe.residual == "twice" else x
        for number, sublayer in enumerate(sublayers, start=1):
            norm, order = self.norm_of(number), self.recipe.within(f"norm{number}").norm_order
            if order == "norm on the output":
                y = y + norm(sublayer(x))
            else:
                y = y + sublayer(x if order == "no norm" else norm(x))
        return y

    def fed_forward(self, x: Tensor, number: int, first: Tensor, before: Tensor) -> Tensor:
        """The last sublayer. first, before: the inputs of the block, and of the sublayer before."""
        if self.recipe.network == "thrown away":
            return x
        given = first if self.recipe.network_input == "block's input" else x
        given = self.outputs[-1] if self.recipe.network_input == "earlier output" else given
        others = {"stream": x, FIRST: first, "earlier input": before}
        others |= dict.fromkeys(("block's input", "block's input, in both"), first)
        return self.connect(given, self.feed_forward, number, **others)


class EncoderLayer(Layer):
    """x (B, S, d_model), mask -> the same shape."""

    def __init__(self, settings: dict[str, Any], recipe: Recipe) -> None:
        super().__init__(settings, recipe, norms=2)

    def forward(self, x: Tensor, mask: Mask = None) -> Tensor:
        if self.recipe.norm_order == "parallel":
            return self.side_by_side(x, lambda x: self.self_attn(x, x, x, mask), self.feed_forward)
        y = self.connect(x, lambda x: self.self_attn(x, x, x, mask), 1)
        return self.fed_forward(y, 2, x, x)


class DecoderLayer(Layer):
    """x (B, T, d_model), memory (B, S, d_model), mask of the target, memory_mask of the source."""

    def __init__(self, settings: dict[str, Any], recipe: Recipe) -> None:
        super().__init__(settings, recipe, norms=3)

    def forward(self, x: Tensor, memory: Tensor, mask: Mask = None, memory_mask: Mask = None) -> Tensor:
        first, memory = x, self._normed(memory)
        if self.recipe.order == "cross, self":
            # norms in order of use
            x = before = self.connect(x, lambda x: self._cross(x, memory, memory_mask, mask), 1)
            x = self.connect(x, lambda x: self._self(x, mask, memory_mask), 2)
        else:
            if self.recipe.self_mask == "source, of its length" and x.shape[1] != memory.shape[1]:
                raise ValueError("the source's mask does not fit the target")
            x = before = self.connect(x, lambda x: self._self(x, mask, memory_mask), 1)
            if self.recipe.order != "no cross":
                given = first if self.recipe.cross_input == "block's input" else x
                others = {"stream": x, FIRST: first, **dict.fromkeys(("memory", "value", "key"), memory)}
                others |= dict.fromkeys(("block's input, in cross-attention", "block's input, in both"), first)
                x = self.connect(given, lambda x: self._cross(x, memory, memory_mask, mask), 2, **others)
        return self.fed_forward(x, 3, first, before)

    def _normed(self, memory: Tensor) -> Tensor:
        """The encoder's output, as the attention to it is given it."""
        norms = {"own": "norm_memory", "queries'": f"norm{self.number_of(2)}"}
        name = norms.get(self.recipe.memory_norm)
        return memory if name is None else getattr(self, name)(memory)

    def _self(self, x: Tensor, mask: Mask, memory_mask: Mask) -> Tensor:
        if self.recipe.self_mask == "none":
            mask = None
        elif self.recipe.self_mask != "target":
            mask = memory_mask if memory_mask is not None and memory_mask.shape[-1] == x.shape[1] else None
        return self.self_attn(x, x, x, mask)

    def _cross(self, x: Tensor, memory: Tensor, memory_mask: Mask, own_mask: Mask) -> Tensor:
        if self.recipe.memory == "its keys":
            return self.cross_attn(x, memory, x, memory_mask)
        if self.recipe.memory != "encoder":
            memory, memory_mask = x, own_mask if self.recipe.memory == "decoder, its mask" else memory_mask
        fits = memory_mask is None or memory_mask.shape[-1] == memory.shape[1]
        mask = memory_mask if fits and self.recipe.memory_mask == "source" else None
        return self.cross_attn(x, memory, memory, mask)


class DecoderOnlyLayer(EncoderLayer):
    """x (B, T, d_model) attends to itself and what is before."""

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x, triangle(x.shape[1], x.shape[1], x.device)[None, None])
