"""Functions that build masks, by recipe."""

from __future__ import annotations

import torch
from torch import Tensor

from scratch_transformer import masks
from scratch_transformer.kit.canonical.base import OfRecipe, OfSettings
from scratch_transformer.kit.canonical.core import other_causal
from scratch_transformer.kit.recipe import Recipe


def shaped(mask: Tensor, shape: str) -> Tensor:
    """(…) with leading axes of 1 up to the number of dimensions that the recipe says."""
    return mask.reshape(*[1] * (int(shape) - mask.dim()), *mask.shape)


def levels(mask: Tensor, recipe: Recipe) -> Tensor:
    """True and False; ½ where scores are lowered by too little to block."""
    return torch.where(mask, 1.0, 0.5) if recipe.fill == "-1e4" else mask


class CausalMask(OfRecipe):
    """length -> boolean (T, T)."""

    def forward(self, length: int) -> Tensor:
        allowed = other_causal(masks.causal(length), self.recipe.causal)
        mask = ~allowed if self.recipe.blocked_is == "True" else allowed
        return shaped(levels(mask, self.recipe), self.recipe.mask_shape)


class PaddingMask(OfSettings):
    """ids (B, S) -> boolean (B, S), (B, 1, S) or (B, 1, 1, S); (B, S, S) or (B, 1, S, S) if rows are blocked too."""

    def forward(self, ids: Tensor) -> Tensor:
        recipe = self.recipe
        real = ids != self.settings["pad"] + (recipe.counted == "other padding")
        axes = int(recipe.mask_shape) - 2
        is_square = recipe.padding == "both" and axes > 0
        real = real[:, :, None] & real[:, None, :] if is_square else real
        mask = levels(~real if recipe.blocked_is == "True" else real, recipe)
        if is_square:
            return mask.reshape(ids.shape[0], *[1] * (axes - 1), *mask.shape[1:])
        if recipe.padding == "queries":
            return mask.reshape(ids.shape[0], *[1] * (axes - 1), ids.shape[1], 1)
        return mask.reshape(ids.shape[0], *[1] * axes, ids.shape[1])


class CombinedMask(OfSettings):
    """ids (B, T) -> boolean (B, 1, T, T) or (B, T, T): padding and future are blocked."""

    def forward(self, ids: Tensor) -> Tensor:
        real = ids != self.settings["pad"] + (self.recipe.counted == "other padding")
        keys = real[:, :, None] if self.recipe.padding == "queries" else real[:, None, :]
        keys = torch.ones_like(keys) if self.recipe.padding == "ignored" else keys
        keys = keys & real[:, :, None] if self.recipe.padding == "both" else keys
        allowed = keys & other_causal(masks.causal(ids.shape[1]), self.recipe.causal)
        mask = levels(~allowed if self.recipe.blocked_is == "True" else allowed, self.recipe)
        return mask if self.recipe.mask_shape == "3" else mask[:, None]
