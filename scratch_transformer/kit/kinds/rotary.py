"""Rotary positions."""

from __future__ import annotations

import torch
from torch import Tensor

from scratch_transformer.kit.canonical.rotary import RotaryEmbedding
from scratch_transformer.kit.kind import Inputs, Kind, Probe, Settings, State
from scratch_transformer.kit.kinds.inputs import B, Draw, T
from scratch_transformer.kit.recipe import Recipe

BASE = 10000.0
PAIRINGS = {
    "neighbours are pairs": {"rotary": "interleaved"},
    "pairs across the halves": {"rotary": "halves"},
}
ROTARY_MISTAKES = ("R1", "R2", "R6", "R7")
"""What shows in a rotation itself, and in attention that has it inside."""


def rotary_probes(settings: Settings, seed: int) -> tuple[Probe, ...]:
    draw = Draw(seed)
    x = draw.normal(B, settings["num_heads"], T, settings["d_k"])
    later = torch.tensor([2, 3, 4, 7, 11]) if settings["takes_positions"] else torch.arange(T)
    return (
        Probe("in order", {"x": x, "positions": torch.arange(T)}, shows="positions 0 to 4"),
        Probe("later", {"x": draw.normal(*x.shape), "positions": later}, shows=f"positions {later.tolist()}"),
    )


def builtin_rotary(settings: Settings, recipe: Recipe, state: State, inputs: Inputs) -> Tensor:
    return turned(inputs["x"], inputs["positions"], settings["rope_base"], recipe)


def turned(x: Tensor, positions: Tensor, base: float, recipe: Recipe) -> Tensor:
    """Every pair as a complex number, times exp(i · angle)."""
    d = x.shape[-1]
    angle = torch.outer(positions.double(), 1 / base ** (torch.arange(0, d, 2, dtype=torch.float64) / d))
    is_halves = recipe.rotary == "halves"
    pairs = x.unflatten(-1, (2, -1)).transpose(-1, -2) if is_halves else x.unflatten(-1, (-1, 2))
    whole = torch.view_as_complex(pairs.double().contiguous()) * torch.polar(torch.ones_like(angle), angle)
    out = torch.view_as_real(whole)
    return (out.transpose(-1, -2) if is_halves else out).flatten(-2).to(x.dtype)


ROTARY = Kind(
    name="RotaryEmbedding",
    what="Turns every pair of features of a query or a key by an angle that grows with its position.",
    synonyms=(
        *("rotaryembedding", "rotarypositionalembedding", "rope", "rotarypositionembedding", "rotary"),
        *("rotarypositionalencoding", "rotarypositionencoding", "ropeembedding", "rotarype", "ropepositionalencoding"),
        *("precomputefreqscis", "precomputefreqs", "precomputethetaposfrequencies", "computeropeparams"),
        *("precomputeropeparams", "buildropecache", "computefreqscis", "ropeparams", "getrotarymatrix"),
        *("applyrotaryemb", "applyrope", "applyrotaryposemb", "applyrotaryembedding", "applyrotaryembeddings"),
        "applyrotary",
    ),
    source="Su et al. 2021, section 3.2.2",
    inputs=("x", "positions"),
    defaults={"num_heads": 3, "d_k": 4, "max_len": 19, "rope_base": BASE, "takes_positions": True},
    build=lambda settings, recipe: RotaryEmbedding(settings["rope_base"], recipe),
    probes=rotary_probes,
    mistakes=(*ROTARY_MISTAKES, "R5", "R9", "R10", "P8:", "A12", "B32"),
    designs=PAIRINGS,
    oracle=builtin_rotary,
    builtin="complex numbers, times exp(i · angle)",
)
