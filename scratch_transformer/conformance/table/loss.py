"""CrossEntropyLoss."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn as builtin

import scratch_transformer.nn as ours
from scratch_transformer.conformance import invariants
from scratch_transformer.conformance.component import Call, Case, Component, ErrorCase
from scratch_transformer.conformance.draw import B, Draw, E, S, T

CLASSES = E
WEIGHT = torch.linspace(0.5, 2.0, CLASSES, dtype=torch.float64)


def _indices(draw: Draw) -> Call:
    return Call(draw.normal(S, CLASSES), draw.ids(S, below=CLASSES))


def _padded(draw: Draw) -> Call:
    target = draw.ids(B, T, below=CLASSES).masked_fill(draw.padding(B, T), 0)
    return Call(draw.normal(B, CLASSES, T), target)


def _probabilities(draw: Draw) -> Call:
    return Call(draw.normal(S, CLASSES), draw.probabilities(S, CLASSES, dim=1))


def _cases() -> list[Case]:
    options: dict[str, dict[str, Any]] = {
        "plain": {},
        "label smoothing": {"label_smoothing": 0.1},
        "class weights": {"weight": WEIGHT},
        "class weights and label smoothing": {"weight": WEIGHT, "label_smoothing": 0.1},
    }
    inputs = {
        "indices": (_indices, {}),
        "padding ignored": (_padded, {"ignore_index": 0}),
        "probabilities": (_probabilities, {}),
    }
    return [
        Case(f"{kind}, {option}, {reduction}", call, {**init, **extra, "reduction": reduction})
        for kind, (call, extra) in inputs.items()
        for option, init in options.items()
        for reduction in ("mean", "sum", "none")
    ]


CROSS_ENTROPY = Component(
    "CrossEntropyLoss",
    ours.CrossEntropyLoss,
    builtin.CrossEntropyLoss,
    "Vaswani et al. 2017, section 5.4; Szegedy et al. 2016, section 7",
    cases=(
        *_cases(),
        Case("one sample", lambda d: Call(d.normal(CLASSES), d.ids(below=CLASSES))),
        Case("two further dimensions", lambda d: Call(d.normal(B, CLASSES, T, S), d.ids(B, T, S, below=CLASSES)), {"label_smoothing": 0.2}),
        Case("probabilities of two further dimensions", lambda d: Call(d.normal(B, CLASSES, T, S), d.probabilities(B, CLASSES, T, S, dim=1)), {"weight": WEIGHT}),
        Case("everything ignored", lambda d: Call(d.normal(S, CLASSES), d.ids(S, below=CLASSES) * 0 + 4), {"ignore_index": 4}),
        Case("everything ignored, sum", lambda d: Call(d.normal(S, CLASSES), d.ids(S, below=CLASSES) * 0 + 4), {"ignore_index": 4, "reduction": "sum"}),
        Case("logits of -inf", lambda d: Call(d.normal(S, CLASSES).masked_fill(torch.arange(CLASSES, device=d.device) == 3, float("-inf")), d.ids(S, below=3))),
        Case("uint8 indices", lambda d: Call(d.normal(S, CLASSES), d.ids(S, below=CLASSES).byte())),
        Case("reduce=False", _indices, {"reduce": False}),
        Case("size_average=False", _indices, {"size_average": False}),
    ),
    errors=(
        ErrorCase("target too large", IndexError, ("target", "[0, 12)", "12"), {}, lambda d: Call(d.normal(S, CLASSES), d.ids(S) * 0 + CLASSES)),
        ErrorCase("negative target", IndexError, ("target", "[0, 12)", "-1"), {}, lambda d: Call(d.normal(S, CLASSES), d.ids(S) * 0 - 1)),
        ErrorCase("another batch size", ValueError, ("target", "(5,)", "(7,)"), {}, lambda d: Call(d.normal(S, CLASSES), d.ids(T))),
        ErrorCase("classes last", RuntimeError, ("target", "(2, 5)", "(2, 12)"), {}, lambda d: Call(d.normal(B, T, CLASSES), d.ids(B, T))),
        ErrorCase("probabilities of another shape", RuntimeError, ("target", "(7, 13)", "(7, 12)"), {}, lambda d: Call(d.normal(S, CLASSES), d.probabilities(S, 13, dim=1))),
        ErrorCase("one-hot integers", RuntimeError, ("target", "int64", "(7,)"), {}, lambda d: Call(d.normal(S, CLASSES), d.ids(S, CLASSES, below=2))),
        ErrorCase("probabilities and ignore_index", RuntimeError, ("ignore_index=2", "floating point target"), {"ignore_index": 2}, _probabilities),
        ErrorCase("floating-point indices", RuntimeError, ("target", "(7,)", "(7, 12)"), {}, lambda d: Call(d.normal(S, CLASSES), d.normal(S))),
        ErrorCase("int32 indices", RuntimeError, ("target", "int64", "int32"), {}, lambda d: Call(d.normal(S, CLASSES), d.ids(S).int())),
        ErrorCase("weight of another length", RuntimeError, ("weight", "(11,)", "(12,)"), {"weight": torch.ones(11)}, lambda d: Call(d.normal(S, CLASSES), d.ids(S))),
        ErrorCase("label smoothing above one", RuntimeError, ("label_smoothing", "between 0.0 and 1.0", "1.5"), {"label_smoothing": 1.5}, _indices),
        ErrorCase("no such reduction", ValueError, ("reduction", "'average'", "'mean'"), {"reduction": "average"}, _indices),
        ErrorCase("scalar logits", RuntimeError, ("logits", "scalar"), {}, lambda d: Call(d.normal(), d.ids())),
    ),
    invariants=invariants.CROSS_ENTROPY,
)  # fmt: skip

LOSSES = (CROSS_ENTROPY,)
