"""Rotary positions: every pair of features is turned by an angle that grows with the position, by recipe."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from scratch_transformer.kit.recipe import Recipe

Pair = tuple[Tensor, Tensor]

TURNS: dict[str, Callable[[Tensor, Tensor, Pair, Pair], Pair]] = {
    "forward": lambda a, b, cos, sin: (a * cos[0] - b * sin[0], a * sin[1] + b * cos[1]),
    "backward": lambda a, b, cos, sin: (a * cos[0] + b * sin[0], b * cos[1] - a * sin[1]),
    "without minus": lambda a, b, cos, sin: (a * cos[0] + b * sin[0], a * sin[1] + b * cos[1]),
    "minus on both": lambda a, b, cos, sin: (a * cos[0] - b * sin[0], b * cos[1] - a * sin[1]),
    "not crossed": lambda a, b, cos, sin: (a * cos[0] - b * sin[0], a * cos[1] + b * sin[1]),
    "own sine": lambda a, b, cos, sin: (a * cos[0] - a * sin[0], b * cos[1] + b * sin[1]),
}
"""What becomes of a pair (a, b); cosines and sines of a's place and of b's, the same if the table is right."""

# pair number i, features d, features of all heads -> the exponent of the base
EXPONENTS: dict[str, Callable[[Tensor, int, int], Tensor]] = {
    "paper": lambda i, d, width: -2 * i / d,
    "inverted": lambda i, d, width: 2 * i / d,
    "from -1": lambda i, d, width: -2 * (i - 1) / d,
    "from 1": lambda i, d, width: -2 * (i + 1) / d,
    "one more": lambda i, d, width: -(2 * i + 1) / d,
    "one less": lambda i, d, width: -(2 * i - 1) / d,
    "of d_model": lambda i, d, width: -2 * i / width,
    "half": lambda i, d, width: torch.where(i < d // 4, -i / max(d // 4 - 1, 1), -math.inf),
}

TIMES = "times "
"""Before the factor of a whole exponent, in a recipe's rotary_angles."""
OF_BASE = ", of the base "
"""Between one of these and another base than the setting, in a recipe's rotary_angles."""


def counted(length: int, recipe: Recipe) -> Tensor:
    """The positions 0, 1, 2, …, or those that a step-wise decoder gives to tokens that come one by one."""
    return _counted(length, recipe.step_positions)


@functools.lru_cache(maxsize=256)
def _counted(length: int, form: str) -> Tensor:
    positions = torch.arange(length)
    if form.startswith("all the first"):
        prompt = 3 if form.endswith("after a prompt") else 0
        return positions.where(positions < prompt, 0)
    shift = {"right": 0, "one too small": -1, "one too large": 1}[form]
    prompt = 3 if shift else 0
    return positions.where(positions < prompt, positions + shift)


class Angles(NamedTuple):
    """What decides them, besides the positions: features d, features of all heads, base, and the recipe's entries."""

    d: int
    width: int
    base: float
    exponents: str
    first: int
    axis: str

    def at(self, positions: Tensor) -> Tensor:
        """positions (L,) -> (L, d/2): position · base^(-2i/d)."""
        kind, _, other = self.exponents.partition(OF_BASE)
        usual, _, factor = kind.partition(TIMES)
        exponent = EXPONENTS[usual or "paper"](torch.arange(self.d // 2, dtype=torch.float64), self.d, self.width)
        exponents = float(factor or 1) * exponent
        of_tokens = (positions.double() + self.first).unsqueeze(-1)
        counted = torch.arange(0, self.d, 2).expand(len(positions), -1) if self.axis == "features" else of_tokens
        return counted * float(other or self.base) ** exponents


@functools.lru_cache(maxsize=1024)
def _table(
    positions: tuple[Any, ...], angles: Angles, pairing: str, columns: str, dtype: torch.dtype, device: torch.device
) -> tuple[Pair, Pair]:  # fmt: skip
    """Cosines and sines of both features of every pair; made once, as a check turns by the same thousands of times.

    columns: how their features are paired; not as those of what is turned, in a mistake.
    """
    angle = angles.at(torch.tensor(positions, device=device))
    table = joined(angle, angle, columns)
    return pairs(table.cos().to(dtype), pairing), pairs(table.sin().to(dtype), pairing)


def _nested(values: list[Any]) -> tuple[Any, ...]:
    """Lists within lists as tuples, which a cache can look up: samples may have positions of their own."""
    return tuple(_nested(one) if isinstance(one, list) else one for one in values)


def pairs(x: Tensor, order: str) -> Pair:
    """Features (…, d) -> the first and the second of every pair: neighbours, or one of each half."""
    first, second = x.chunk(2, -1) if order == "halves" else x.unflatten(-1, (-1, 2)).unbind(-1)
    return first, second


def joined(first: Tensor, second: Tensor, order: str) -> Tensor:
    """The inverse of `pairs`."""
    return torch.cat((first, second), -1) if order == "halves" else torch.stack((first, second), -1).flatten(-2)


def rotated(x: Tensor, positions: Tensor, base: float, recipe: Recipe, width: int | None = None) -> Tensor:
    """x (…, L, d) at positions (…, L), turned. width: the features of all heads together."""
    d, pairing = x.shape[-1], recipe.rotary
    other = {"interleaved": "halves", "halves": "interleaved"}[pairing]
    angles = Angles(d, width or d, base, recipe.rotary_angles, recipe.rotary_first, recipe.rotary_axis)
    columns = other if recipe.rotary_table == "other" else pairing
    cos, sin = _table(_nested(positions.tolist()), angles, pairing, columns, x.dtype, x.device)
    turned = TURNS[recipe.rotary_turn](*pairs(x, pairing), cos, sin)
    return joined(*turned, other if recipe.rotary_out == "other" else pairing)


class RotaryEmbedding(nn.Module):
    """x (B, h, T, d_k), positions (T,) -> x turned by its positions."""

    def __init__(self, base: float, recipe: Recipe, width: int | None = None) -> None:
        super().__init__()
        self.base, self.recipe, self.width = base, recipe, width

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        if self.recipe.rotary_axis == "heads":
            return rotated(x.transpose(1, 2), torch.arange(x.shape[1]), self.base, self.recipe).transpose(1, 2)
        if self.recipe.rotary_axis == "given positions ignored":
            positions = torch.arange(x.shape[-2])
        width = self.width or (x.shape[1] * x.shape[-1] if x.dim() == 4 else None)
        return rotated(x, positions, self.base, self.recipe, width)
