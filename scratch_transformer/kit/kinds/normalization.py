"""LayerNorm and RMSNorm."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from scratch_transformer.kit.canonical import normalization as canonical
from scratch_transformer.kit.kind import Extra, Inputs, Kind, Probe, Settings, State
from scratch_transformer.kit.kinds.inputs import D_MODEL, EPS, B, Draw, T
from scratch_transformer.kit.recipe import Recipe


def probes(settings: Settings, seed: int) -> tuple[Probe, ...]:
    draw, d_model = Draw(seed), settings["d_model"]
    x = draw.normal(B, T, d_model) + draw.normal(B, T, 1)
    sizes = torch.logspace(0, -4, B * T, dtype=torch.float64).reshape(B, T, 1)
    return (
        Probe("ordinary", {"x": x * 2}, shows="ordinary tokens"),
        Probe(
            "shrinking",
            {"x": x * sizes},
            shows="tokens whose standard deviation falls from 1 to 0.0001",
            provoking=True,
        ),
    )


def far_from_zero(settings: Settings) -> Probe:
    x = Draw(1).normal(B, 40, settings["d_model"]) + 1e4
    return Probe("far from zero", {"x": x.float()}, shows="tokens with a mean of 10,000, in float32")


def builtin_layer_norm(settings: Settings, recipe: Recipe, state: State, inputs: Inputs) -> Tensor:
    x: Tensor = inputs["x"]
    return torch.nn.functional.layer_norm(x, x.shape[-1:], state["weight"], state["bias"], settings["eps"])


def builtin_rms_norm(settings: Settings, recipe: Recipe, state: State, inputs: Inputs) -> Tensor:
    x: Tensor = inputs["x"]
    weight = state["weight"] + 1 if recipe.norm_scale == "1 + weight" else state["weight"]
    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, settings["eps"])


def build(function: Any) -> Any:
    return lambda settings, recipe: function(dict(settings), recipe)


LAYER_NORM = Kind(
    name="LayerNorm",
    what="Brings the features of every token to mean 0 and variance 1, then scales and shifts them.",
    synonyms=("layernorm", "layernormalization", "norm", "ln", "layernormalisation"),
    source="Ba et al. 2016, equation 3; Vaswani et al. 2017, section 3.1",
    inputs=("x",),
    defaults={"d_model": D_MODEL, "eps": EPS},
    build=build(canonical.layer_norm),
    probes=probes,
    mistakes=(
        *("LN1", "LN2", "LN3", "LN4", "LN5", "LN6", "LN7", "LN8", "LN9", "LN10", "LN12", "LN13", "LN14"),
        *("B22", "B29", "B27", "B33", "B32", "B10"),
    ),
    oracle=builtin_layer_norm,
    builtin="torch.nn.LayerNorm",
    extras=(Extra(("LN5",), far_from_zero, limit=3e-2, low_precision=True),),
)

SCALE_UNUSED = "LN6:the scale is made and never used"
RMS_NORM = Kind(
    name="RMSNorm",
    what="Divides the features of every token by their root mean square, then scales them.",
    synonyms=("rmsnorm", "norm", "rms", "rootmeansquarenorm", "rmsnormalization", "llamarmsnorm", "t5layernorm"),
    source="Zhang & Sennrich 2019; not in Vaswani et al. 2017",
    inputs=("x",),
    defaults={"d_model": D_MODEL, "eps": EPS},
    build=build(canonical.rms_norm),
    probes=probes,
    mistakes=(
        *("LN2", "LN3", "LN4", SCALE_UNUSED, "LN7", "LN8", "LN10", "LN11", "LN12", "LN13"),
        *("B22", "B29", "B27", "B33", "B32", "B10"),
    ),
    designs={"": {"norm_kind": "rms"}, "1 + weight": {"norm_kind": "rms", "norm_scale": "1 + weight"}},
    oracle=builtin_rms_norm,
    builtin="torch.nn.RMSNorm",
)
