"""LayerNorm, RMSNorm and BatchNorm1d."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn as builtin

import scratch_transformer.nn as ours
from scratch_transformer.conformance import invariants
from scratch_transformer.conformance.component import Call, Case, Component, ErrorCase
from scratch_transformer.conformance.draw import B, Draw, E, S, T
from scratch_transformer.conformance.environment import TORCH


def _tokens(draw: Draw) -> Call:
    return Call(draw.normal(B, T, E))


def _quiet_tokens(draw: Draw) -> Call:
    """A variance near eps: a misplaced or another eps shows."""
    return Call(draw.normal(B, T, E, scale=3e-3))


def _offset_tokens(draw: Draw) -> Call:
    return Call(draw.normal(B, T, E) + 30)


_PER_TOKEN: tuple[tuple[str, Any, dict[str, Any]], ...] = (
    ("one dimension", _tokens, {"normalized_shape": E}),
    ("variance near eps", _quiet_tokens, {"normalized_shape": E, "eps": 1e-5}),
    ("inflated eps", _tokens, {"normalized_shape": E, "eps": 0.3}),
    ("mean far from zero", _offset_tokens, {"normalized_shape": (E,)}),
    ("two dimensions", _tokens, {"normalized_shape": (T, E)}),
    ("without parameters", _tokens, {"normalized_shape": E, "elementwise_affine": False}),
    ("not contiguous", lambda draw: Call(draw.normal(B, E, T).transpose(1, 2)), {"normalized_shape": E}),
    ("one feature", lambda draw: Call(draw.normal(B, T, 1)), {"normalized_shape": 1, "eps": 0.3}),
    ("an empty batch", lambda draw: Call(draw.normal(0, T, E)), {"normalized_shape": E}),
)


_WIDTHS = {"normalized_shape": (T, E)}
_WRONG_WIDTH = ErrorCase(
    "wrong width", RuntimeError, ("x", "(2, 5, 13)", "(5, 12)"), _WIDTHS, lambda d: Call(d.normal(B, T, 13))
)
_NO_WIDTH = ErrorCase(
    "nothing to normalize",
    RuntimeError,
    ("normalized_shape", "()"),
    {"normalized_shape": ()},
    lambda d: Call(d.normal(E)),
)


LAYER_NORM = Component(
    "LayerNorm",
    ours.LayerNorm,
    builtin.LayerNorm,
    "Ba et al. 2016, equation 3",
    cases=(
        *(Case(description, call, init) for description, call, init in _PER_TOKEN),
        Case("without bias", _tokens, {"normalized_shape": E, "bias": False}),
    ),
    errors=(
        _WRONG_WIDTH,
        _NO_WIDTH,
        ErrorCase("too few dimensions", RuntimeError, ("x", "(12,)", "(5, 12)"), _WIDTHS, lambda d: Call(d.normal(E))),
        ErrorCase(
            "another dtype",
            RuntimeError,
            ("x", "float32", "float64"),
            {"normalized_shape": E, "dtype": torch.float64},
            lambda d: Call(d.normal(T, E).float()),
        ),
    ),
    invariants=invariants.LAYER_NORM,
)

RMS_NORM = Component(
    "RMSNorm",
    ours.RMSNorm,
    builtin.RMSNorm,
    "Zhang & Sennrich 2019, equation 4",
    cases=tuple(Case(description, call, init) for description, call, init in _PER_TOKEN),
    errors=(
        _WRONG_WIDTH,
        _NO_WIDTH,
        ErrorCase(
            "too few dimensions",
            ValueError,
            ("x", "(12,)", "(5, 12)"),
            _WIDTHS,
            lambda d: Call(d.normal(E)),
            torch_raises=TORCH >= (2, 11),  # older releases raise RuntimeError
        ),
    ),
    invariants=invariants.RMS_NORM,
)

_CHANNELS = {"num_features": E}

BATCH_NORM = Component(
    "BatchNorm1d",
    ours.BatchNorm1d,
    builtin.BatchNorm1d,
    "Ioffe & Szegedy 2015, algorithms 1 and 2",
    cases=(
        Case("training", lambda draw: Call(draw.normal(S, E)), _CHANNELS, training=True),
        Case("training on sequences", lambda draw: Call(draw.normal(B, E, T)), _CHANNELS, training=True),
        Case("evaluation", lambda draw: Call(draw.normal(S, E)), _CHANNELS),
        Case("evaluation on sequences", lambda draw: Call(draw.normal(B, E, T)), _CHANNELS),
        Case(
            "another momentum and eps",
            lambda draw: Call(draw.normal(S, E)),
            {**_CHANNELS, "momentum": 0.4, "eps": 0.2},
            training=True,
        ),
        Case(
            "cumulative average", lambda draw: Call(draw.normal(S, E)), {**_CHANNELS, "momentum": None}, training=True
        ),
        Case("without parameters", lambda draw: Call(draw.normal(S, E)), {**_CHANNELS, "affine": False}, training=True),
        Case(
            "without running averages",
            lambda draw: Call(draw.normal(S, E)),
            {**_CHANNELS, "track_running_stats": False},
        ),
        Case("an empty batch in training", lambda draw: Call(draw.normal(0, E)), _CHANNELS, training=True),
        Case("one value per channel in evaluation", lambda draw: Call(draw.normal(1, E)), _CHANNELS),
    ),
    errors=(
        ErrorCase(
            "four dimensions",
            ValueError,
            ("2D or 3D", "4D", "(2, 12, 5, 7)"),
            _CHANNELS,
            lambda d: Call(d.normal(B, E, T, S)),
        ),
        ErrorCase("one dimension", ValueError, ("2D or 3D", "1D", "(12,)"), _CHANNELS, lambda d: Call(d.normal(E))),
        ErrorCase(
            "wrong number of channels",
            RuntimeError,
            ("num_features=12", "(2, 13)"),
            _CHANNELS,
            lambda d: Call(d.normal(B, 13)),
        ),
        ErrorCase(
            "another dtype",
            RuntimeError,
            ("x", "float64", "float32"),
            _CHANNELS,
            lambda d: Call(d.normal(S, E).double()),
        ),
        ErrorCase(
            "one value per channel",
            ValueError,
            ("more than 1 value", "(1, 12)"),
            _CHANNELS,
            lambda d: Call(d.normal(1, E)),
        ),
    ),
    invariants=invariants.BATCH_NORM,
)

NORMALIZATION = (LAYER_NORM, RMS_NORM, BATCH_NORM)
