"""Token embeddings and positions, by recipe."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from scratch_transformer import functional
from scratch_transformer.kit.canonical.rotary import counted
from scratch_transformer.kit.recipe import Recipe

FACTORS = {"none": lambda d: 1.0, "sqrt(d_model)": math.sqrt, "d_model": float, "1/sqrt(d_model)": lambda d: d**-0.5}
ADDED = "plus sqrt(d_model)"
"""What is done with √d_model where it is no factor."""


class Embedding(nn.Module):
    """ids (B, T) -> (B, T, d_model), times √d_model."""

    def __init__(self, vocab_size: int, d_model: int, recipe: Recipe) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model))
        self.recipe = recipe

    def forward(self, ids: Tensor) -> Tensor:
        return scaled(self.weight[ids], self.recipe.embedding_scale)


def scaled(x: Tensor, how: str) -> Tensor:
    """x (..., d_model) times a factor, by its name or as a number, or with √d_model added to it."""
    d_model = x.shape[-1]
    if how == ADDED:
        return x + math.sqrt(d_model)
    return x * (FACTORS[how](d_model) if how in FACTORS else float(how))


class Positions(nn.Module):
    """x (B, T, d_model) -> x + a code of the positions."""

    def __init__(self, d_model: int, max_len: int, recipe: Recipe) -> None:
        super().__init__()
        self.recipe, self.max_len, self.d_model = recipe, max_len, d_model
        if recipe.positions == "learned":
            self.weight = nn.Parameter(torch.empty(max_len, d_model))

    def forward(self, x: Tensor) -> Tensor:
        recipe = self.recipe
        if recipe.positions == "none":
            return x
        axis = 0 if recipe.position_axis == "batch" else 1
        length = x.shape[axis]
        if length > self.max_len:
            raise ValueError(f"a sequence of {length} tokens is longer than max_len={self.max_len}")
        rows = length + (recipe.position_axis == "length")
        waves = recipe if recipe.angles != OF_LENGTH else recipe.with_({"angles": repr(float(self.max_len))})
        pe = self._learned(rows) if recipe.positions == "learned" else sinusoids(rows, self.d_model, waves).to(x)
        pe = pe if recipe.step_positions == "right" else pe[counted(length, recipe).clamp(max=len(pe) - 1)]
        pe = {"none": pe[:1], "length": pe[length:]}.get(recipe.position_axis, pe).unsqueeze(1 - axis)
        x = scaled(x, recipe.input_scale)
        x = x + x if recipe.adding == "twice" else x
        pe = pe + pe if recipe.adding == "positions twice" else pe
        return x * pe if recipe.adding == "multiplied" else x + pe

    def _learned(self, rows: int) -> Tensor:
        """Counted from the recipe's first position, as far as there are such rows."""
        places = torch.arange(rows) + self.recipe.first_position
        return self.weight[places.clamp(max=self.max_len - 1)]


def sinusoids(length: int, d_model: int, recipe: Recipe) -> Tensor:
    """(length, d_model), float64."""
    if (recipe.angles, recipe.layout, recipe.first_position, recipe.positions_dtype) == RIGHT_TABLE:
        return functional.sinusoidal_positions(length, d_model, dtype=torch.float64)
    pos = torch.arange(length, dtype=torch.float64) + recipe.first_position
    if recipe.positions_dtype == "bfloat16":
        pos = pos.bfloat16().double()
    if recipe.positions_dtype == "integers":
        return sinusoids(length, d_model, recipe.with_({"positions_dtype": "float64"})).trunc()
    if recipe.angles.startswith(GIVEN):
        given = [float(word) for word in recipe.angles.removeprefix(GIVEN).split()]
        sines, cosines = (pos.unsqueeze(1) * half for half in torch.tensor(given, dtype=torch.float64).view(2, -1))
    else:
        of_sine, of_cosine = exponents(d_model, recipe.angles)
        of_sine = of_sine + 2 / d_model if recipe.layout == FROM_ONE else of_sine
        sines, cosines = ((pos.unsqueeze(1) / 10000**e) for e in (of_sine, of_cosine))
    if recipe.layout == "number":
        return pos.unsqueeze(1).expand(length, d_model)
    waves = {"angle": sines, "cosine's angle": cosines, "zero": torch.zeros_like(sines)}
    sines, cosines = (sines.sin(), cosines.cos())
    if recipe.layout == "concatenated":
        return torch.cat([sines, cosines], dim=1)[:, :d_model]
    waves |= {"sine": sines, "cosine": cosines}
    pair = PAIRS.get(recipe.layout) or recipe.layout.split(", ")
    return torch.stack([waves[name] for name in pair], dim=-1).flatten(1)[:, :d_model]


FROM_ONE = "from feature 1"
"""Without the first sine, and with one more at the end."""
PAIRS = {"interleaved": ["sine", "cosine"], "cosine first": ["cosine", "sine"], FROM_ONE: ["cosine", "sine"]}
OF_LENGTH = "of the longest length"
"""The base of frequencies that is how long a sequence may be."""
GIVEN = "given: "
"""Before the frequencies of all sines, and of all cosines, in radians per position."""
RIGHT_TABLE = ("paper", "interleaved", 0, "float64")


def exponents(d_model: int, angles: str) -> tuple[Tensor, Tensor]:
    """The exponents of 10000 in the sines and the cosines; 2i/d_model in the paper.

    angles: a word, or another base than 10000 as a number.
    """
    two_i = torch.arange(0, d_model, 2, dtype=torch.float64)
    right = two_i / d_model
    if angles[0].isdigit():
        return (right * math.log(float(angles), 10000),) * 2
    return {
        "paper": (right, right),
        "doubled": (2 * right, 2 * right),
        "cosine at the next": (right, (two_i + 1) / d_model),
        "doubled, cosine at the next": (2 * right, 2 * (two_i + 1) / d_model),
        "halved": (right / 2, right / 2),
        "to 1": (two_i / max(d_model - 2, 1), two_i / max(d_model - 2, 1)),
        "inverted": (-right, -right),
    }[angles]


def embedding(settings: dict[str, Any], recipe: Recipe) -> Embedding:
    return Embedding(settings["vocab_size"], settings["d_model"], recipe)


def positions(settings: dict[str, Any], recipe: Recipe) -> Positions:
    return Positions(settings["d_model"], settings["max_len"], recipe)
