"""What most modules without parameters share: they keep the recipe by which they compute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from scratch_transformer.kit.recipe import Recipe


class OfRecipe(nn.Module):
    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.recipe = recipe


class OfSettings(OfRecipe):
    def __init__(self, settings: Mapping[str, Any], recipe: Recipe) -> None:
        super().__init__(recipe)
        self.settings = settings
