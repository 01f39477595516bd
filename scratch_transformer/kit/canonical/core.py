"""The attention core, softmax(Q Kᵀ / √d_k) V, by recipe: what it is scaled by, and how it is masked and normalized."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import torch
from torch import Tensor

from scratch_transformer import masks
from scratch_transformer.kit.canonical.base import OfRecipe
from scratch_transformer.kit.recipe import Recipe

Mask = Tensor | None

# d_k, number of heads, length of the keys, d_model, samples -> the factor of the scores
SCALES: dict[str, Callable[[int, int, int, int, int], float]] = {
    "1/sqrt(d_k)": lambda d_k, h, S, E, B: 1 / math.sqrt(d_k),
    "none": lambda d_k, h, S, E, B: 1.0,
    "1/d_k": lambda d_k, h, S, E, B: 1 / d_k,
    "1/sqrt(d_model)": lambda d_k, h, S, E, B: 1 / math.sqrt(E),
    "1/d_model": lambda d_k, h, S, E, B: 1 / E,
    "1/sqrt(h)": lambda d_k, h, S, E, B: 1 / math.sqrt(h),
    "sqrt(d_k)": lambda d_k, h, S, E, B: math.sqrt(d_k),
    "sqrt(d_model)": lambda d_k, h, S, E, B: math.sqrt(E),
    "1/sqrt(d_k/h)": lambda d_k, h, S, E, B: math.sqrt(h / d_k),
    "1/sqrt(S)": lambda d_k, h, S, E, B: 1 / math.sqrt(S),
    "1/sqrt(B)": lambda d_k, h, S, E, B: 1 / math.sqrt(B),
}
AXES = {"keys": -1, "queries": -2, "heads": -3, "batch": 0}
FILLS = {
    "-inf, empty rows zero": float("-inf"),
    "-inf": float("-inf"),
    "-1e9": -1e9,
    "-1e4": -1e4,
    "1e-9": 1e-9,
    "-1e-9": -1e-9,
    "1e9": 1e9,
    "inf": float("inf"),
}
WEIGHINGS: dict[str, Callable[[Tensor, int], Tensor]] = {
    "softmax": torch.softmax,
    "nothing": lambda scores, axis: scores,
    "sigmoid": lambda scores, axis: torch.sigmoid(scores),
    "log_softmax": torch.log_softmax,
    "softmax twice": lambda scores, axis: torch.softmax(torch.softmax(scores, axis), axis),
}
"""How scores become weights; by the builtin, which takes a third of the time: a check computes thousands of these."""


def attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Mask, recipe: Recipe, heads: int | None = None, width: int = 0
) -> Tensor:
    """(B, h, T, d_k), (B, h, S, d_k), (B, h, S, d_v), mask that broadcasts to (B, h, T, S) -> (B, h, T, d_v).

    width: d_model, where heads are not as wide as that together.
    """
    asked, weighed = (value if of == "values" else key for of in (recipe.scored, recipe.weighed))
    weights = attention_weights(query, asked, mask, recipe, heads, width)
    if recipe.summed == "own value":
        return weights.sum(-1, keepdim=True) * weighed  # with as many keys as queries, or it stops
    return _product(weights, weighed, recipe.summed == "keys apart")


def attention_weights(
    query: Tensor, key: Tensor, mask: Mask, recipe: Recipe, heads: int | None = None, width: int = 0
) -> Tensor:
    heads = query.shape[-3] if heads is None else heads
    scores = _product(query, key.transpose(-2, -1), recipe.summed == "features apart")  # (B, h, T, S)
    factor = scale(recipe, query.shape[-1], heads, key.shape[-2], width, len(query))
    mask = edited(mask, recipe, scores)
    if recipe.scale_place == "after softmax":
        return masked_softmax(scores, mask, recipe) * factor
    return masked_softmax(scores * factor, mask, recipe)


def _product(left: Tensor, right: Tensor, are_apart: bool) -> Tensor:
    """left @ right; where einsum has two letters for the axis that they share, each is summed over its own."""
    return left.sum(-1, keepdim=True) * right.sum(-2, keepdim=True) if are_apart else left @ right


def scale(recipe: Recipe, d_k: int, heads: int, length: int, width: int = 0, samples: int = 1) -> float:
    """A scale by name, or a number that was fitted."""
    if recipe.scale not in SCALES:
        return float(recipe.scale)
    return SCALES[recipe.scale](d_k, heads, length, width or heads * d_k, samples)


def masked_softmax(scores: Tensor, mask: Mask, recipe: Recipe) -> Tensor:
    """softmax over the axis of the recipe, with blocked scores treated as it says."""
    axis = AXES[recipe.softmax_over]
    axis = axis if axis >= -scores.dim() else 0
    weigh = WEIGHINGS[recipe.weighing]
    if mask is None:
        return weigh(scores, axis)
    if recipe.masking == "after softmax":
        return weigh(scores, axis) * mask
    if recipe.masking == "times":
        return weigh(scores * mask, axis)
    if recipe.masking == "added keep":
        return weigh(scores + mask.to(scores.dtype), axis)
    if recipe.masking == "added block":
        return weigh(scores + (~mask).to(scores.dtype), axis)
    weights = weigh(scores.masked_fill(~mask, FILLS[recipe.fill]), axis)
    if recipe.fill != "-inf, empty rows zero":
        return weights
    return weights.masked_fill(~mask.expand_as(scores).any(axis, keepdim=True), 0.0)


def edited(mask: Mask, recipe: Recipe, scores: Tensor) -> Mask:
    """The mask as a mistaken implementation applies it."""
    if mask is None or recipe.masking == "ignored":
        return None
    if (recipe.causal, recipe.padding) == ("lower", "keys"):
        return mask & torch.ones_like(mask).triu(1 - recipe.span) if recipe.span else mask
    if "lost" in recipe.causal + recipe.padding:
        return overwritten(mask, recipe)
    T, S = scores.shape[-2:]
    lower = triangle(T, S, mask.device)
    is_causal = mask.shape[-2] == T == S and T > 1 and not bool((mask & ~lower).any())
    keys = mask.any(-2, keepdim=True)  # (…, 1, S), what is not padded
    sides = {"queries of the target": is_causal, "queries of the source": not is_causal}
    padding = ("queries" if sides[recipe.padding] else "keys") if recipe.padding in sides else recipe.padding
    allowed = padded(keys, padding, T)
    return allowed & other_causal(lower, recipe.causal) if is_causal else allowed


@functools.lru_cache(maxsize=256)
def triangle(T: int, S: int, device: torch.device) -> Tensor:
    """The causal mask, boolean (T, S): made once, to be read."""
    return masks.causal(T, S, device)


def overwritten(mask: Tensor, recipe: Recipe) -> Tensor:
    """What is left of a mask of padding and future where applying one of them undoes the other."""
    keys, lower = mask.any(-2, keepdim=True), triangle(mask.shape[-2], mask.shape[-1], mask.device)
    is_causal = mask.shape[-2] == mask.shape[-1] > 1 and not bool((mask & ~lower).any())
    if bool(keys.all()) or not is_causal:
        return mask
    return (lower if recipe.padding.startswith("lost") else keys).expand_as(mask)


def padded(keys: Tensor, padding: str, T: int) -> Tensor:
    """A padding mask (B, 1, 1, S), on other axes if the recipe says so."""
    if padding == "ignored":
        return torch.ones_like(keys)
    # rows and columns can only be mixed up where both have one length
    return keys.transpose(-2, -1) if padding == "queries" and keys.shape[-1] == T else keys


def other_causal(lower: Tensor, causal: str, diagonal: int = 0) -> Tensor:
    """What a mistaken implementation has in place of the lower triangle, which ends at a diagonal."""
    ones = torch.ones_like(lower)
    return {
        "lower": lower,
        "future": ~lower,
        "future and present": ones.triu(diagonal),
        "past": ones.tril(diagonal - 1),
        "one ahead": ones.tril(diagonal + 1),
        "ignored": ones,
        "itself only": ones.tril(diagonal).triu(diagonal),
    }[causal]


class ScaledDotProductAttention(OfRecipe):
    """The core as a module without parameters."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask = None) -> Tensor:
        recipe = self.recipe
        if mask is None and recipe.unmasked != "all":
            ones = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device)
            later = key.shape[-2] - query.shape[-2] if recipe.unmasked == "before the end" else 0
            mask, recipe = other_causal(ones.tril(later), recipe.causal, later), recipe.with_({"causal": "lower"})
        return attention(query, key, value, mask, recipe)
