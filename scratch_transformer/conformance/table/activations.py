"""Softmax, ReLU, GELU and SiLU."""

from __future__ import annotations

import torch.nn as builtin

import scratch_transformer.nn as ours
from scratch_transformer.conformance import invariants
from scratch_transformer.conformance.component import Call, Case, Component, ErrorCase
from scratch_transformer.conformance.draw import B, E, S, T

SOFTMAX = Component(
    "Softmax",
    ours.Softmax,
    builtin.Softmax,
    "Vaswani et al. 2017, section 3.2.1",
    cases=(
        Case("last dimension", lambda draw: Call(draw.normal(B, T, S)), {"dim": -1}),
        Case("first dimension", lambda draw: Call(draw.normal(B, T, S)), {"dim": 0}),
        Case("middle dimension", lambda draw: Call(draw.normal(B, T, S)), {"dim": 1}),
        Case("large scores", lambda draw: Call(draw.normal(B, T, S, scale=300.0)), {"dim": -1}),
        Case("some -inf", lambda draw: Call(draw.additive(draw.some(B, T, S))), {"dim": -1}),
        Case("one element", lambda draw: Call(draw.normal(T, 1)), {"dim": -1}),
        Case("nothing", lambda draw: Call(draw.normal(B, 0, S)), {"dim": -1}),
    ),
    errors=(
        ErrorCase(
            "no such dimension", IndexError, ("Dimension", "[-2, 1]", "2"), {"dim": 2}, lambda d: Call(d.normal(T, S))
        ),
        ErrorCase("integers", RuntimeError, ("x", "floating", "int64"), {"dim": 0}, lambda d: Call(d.ids(T))),
    ),
    invariants=invariants.SOFTMAX,
)

RELU = Component(
    "ReLU",
    ours.ReLU,
    builtin.ReLU,
    "Vaswani et al. 2017, section 3.3, equation 2",
    cases=(
        Case("a batch", lambda draw: Call(draw.normal(B, T, E))),
        Case("zeros among the inputs", lambda draw: Call(draw.normal(B, T, E).masked_fill(draw.some(B, T, E), 0))),
        Case("nothing", lambda draw: Call(draw.normal(B, 0, E))),
    ),
    errors=(ErrorCase("booleans", RuntimeError, ("x", "torch.bool", "numbers"), {}, lambda d: Call(d.some(T, E))),),
    invariants=invariants.RELU,
)

GELU = Component(
    "GELU",
    ours.GELU,
    builtin.GELU,
    "Hendrycks & Gimpel 2016",
    cases=(
        Case("exact", lambda draw: Call(draw.normal(B, T, E))),
        Case("exact, far out", lambda draw: Call(draw.normal(B, T, E, scale=8.0))),
        Case("tanh", lambda draw: Call(draw.normal(B, T, E)), {"approximate": "tanh"}),
        Case("tanh, far out", lambda draw: Call(draw.normal(B, T, E, scale=8.0)), {"approximate": "tanh"}),
    ),
    errors=(
        ErrorCase(
            "no such approximation",
            RuntimeError,
            ("approximate", "'none'", "'tanh'", "'sigmoid'"),
            {"approximate": "sigmoid"},
            lambda d: Call(d.normal(T)),
        ),
    ),
    invariants=invariants.GELU,
)

SILU = Component(
    "SiLU",
    ours.SiLU,
    builtin.SiLU,
    "Hendrycks & Gimpel 2016; Elfwing et al. 2017",
    cases=(
        Case("a batch", lambda draw: Call(draw.normal(B, T, E))),
        Case("far out", lambda draw: Call(draw.normal(B, T, E, scale=30.0))),
        Case("beyond exp's range", lambda draw: Call(draw.normal(B, T, E, scale=1000.0))),
        Case("zeros among the inputs", lambda draw: Call(draw.normal(B, T, E).masked_fill(draw.some(B, T, E), 0))),
        Case("nothing", lambda draw: Call(draw.normal(B, 0, E))),
    ),
    errors=(ErrorCase("integers", RuntimeError, ("x", "floating", "int64"), {}, lambda d: Call(d.ids(T, E))),),
    invariants=invariants.SILU,
)

ACTIVATIONS = (SOFTMAX, RELU, GELU, SILU)
