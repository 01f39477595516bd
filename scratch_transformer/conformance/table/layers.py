"""Linear, Embedding and Dropout."""

from __future__ import annotations

import torch.nn as builtin

import scratch_transformer.nn as ours
from scratch_transformer.conformance import invariants
from scratch_transformer.conformance.component import Call, Case, Component, ErrorCase
from scratch_transformer.conformance.draw import FF, VOCABULARY, B, E, S, T

_LINEAR = {"in_features": E, "out_features": FF}
_TABLE = {"num_embeddings": VOCABULARY, "embedding_dim": E}

LINEAR = Component(
    "Linear",
    ours.Linear,
    builtin.Linear,
    "Vaswani et al. 2017, section 3.3",
    cases=(
        Case("with bias", lambda draw: Call(draw.normal(B, T, E)), _LINEAR),
        Case("without bias", lambda draw: Call(draw.normal(B, T, E)), {**_LINEAR, "bias": False}),
        Case("one vector", lambda draw: Call(draw.normal(E)), _LINEAR),
        Case("a matrix", lambda draw: Call(draw.normal(T, E)), _LINEAR),
        Case("four dimensions", lambda draw: Call(draw.normal(B, T, S, E)), _LINEAR),
        Case("not contiguous", lambda draw: Call(draw.normal(B, E, T).transpose(1, 2)), _LINEAR),
        Case("an empty batch", lambda draw: Call(draw.normal(0, T, E)), _LINEAR),
    ),
    errors=(
        ErrorCase(
            "wrong width", RuntimeError, ("(2, 5, 13)", "in_features=12"), _LINEAR, lambda d: Call(d.normal(B, T, 13))
        ),
        ErrorCase("scalar", RuntimeError, ("at least 1D", "x is 0D", "weight 2D"), _LINEAR, lambda d: Call(d.normal())),
        ErrorCase(
            "another dtype", RuntimeError, ("x", "float32", "float64"), _LINEAR, lambda d: Call(d.normal(T, E).double())
        ),
        ErrorCase("integers", RuntimeError, ("x", "float32", "int64"), _LINEAR, lambda d: Call(d.ids(T, E))),
    ),
    invariants=invariants.LINEAR,
)

EMBEDDING = Component(
    "Embedding",
    ours.Embedding,
    builtin.Embedding,
    "Vaswani et al. 2017, section 3.4",
    cases=(
        Case("ids of a batch", lambda draw: Call(draw.ids(B, T)), _TABLE),
        Case("one id", lambda draw: Call(draw.ids()), _TABLE),
        Case("three dimensions", lambda draw: Call(draw.ids(B, T, S)), _TABLE),
        Case("int32 ids", lambda draw: Call(draw.ids(B, T).int()), _TABLE),
        Case("padding_idx", lambda draw: Call(draw.ids(B, S, below=3)), {**_TABLE, "padding_idx": 2}),
        Case("negative padding_idx", lambda draw: Call(draw.ids(B, S)), {**_TABLE, "padding_idx": -VOCABULARY + 1}),
        Case("scale_grad_by_freq", lambda draw: Call(draw.ids(B, S, below=3)), {**_TABLE, "scale_grad_by_freq": True}),
        Case(
            "padding_idx and scale_grad_by_freq",
            lambda draw: Call(draw.ids(B, S, below=3)),
            {**_TABLE, "scale_grad_by_freq": True, "padding_idx": 1},
        ),
        Case("max_norm", lambda draw: Call(draw.ids(B, T)), {**_TABLE, "max_norm": 1.5}),
        Case(
            "max_norm in the 1-norm", lambda draw: Call(draw.ids(B, T)), {**_TABLE, "max_norm": 3.0, "norm_type": 1.0}
        ),
        Case("no ids", lambda draw: Call(draw.ids(0, T)), _TABLE),
    ),
    errors=(
        ErrorCase(
            "id too large", IndexError, ("ids", "[0, 11)", "11"), _TABLE, lambda d: Call(d.ids(B, T) * 0 + VOCABULARY)
        ),
        ErrorCase("negative id", IndexError, ("ids", "[0, 11)", "-1"), _TABLE, lambda d: Call(d.ids(B, T) * 0 - 1)),
        ErrorCase(
            "negative id, max_norm",
            IndexError,
            ("ids", "[0, 11)", "-1"),
            {**_TABLE, "max_norm": 1.0},
            lambda d: Call(d.ids(B, T) * 0 - 1),
        ),
        ErrorCase("floating-point ids", RuntimeError, ("ids", "float", "int"), _TABLE, lambda d: Call(d.normal(B, T))),
        ErrorCase(
            "padding_idx too large",
            AssertionError,
            ("padding_idx=11", "num_embeddings=11"),
            {**_TABLE, "padding_idx": 11},
        ),
        ErrorCase(
            "padding_idx too small",
            AssertionError,
            ("padding_idx=-12", "num_embeddings=11"),
            {**_TABLE, "padding_idx": -12},
        ),
    ),
    invariants=invariants.EMBEDDING,
)

DROPOUT = Component(
    "Dropout",
    ours.Dropout,
    builtin.Dropout,
    "Vaswani et al. 2017, section 5.4",
    cases=(
        Case("evaluation", lambda draw: Call(draw.normal(B, T, E)), {"p": 0.3}),
        Case("training", lambda draw: Call(draw.normal(B, T, E)), {"p": 0.3}, training=True),
        Case("default probability", lambda draw: Call(draw.normal(B, T, E)), training=True),
        Case("p = 0", lambda draw: Call(draw.normal(B, T, E)), {"p": 0.0}, training=True),
        Case("p = 1", lambda draw: Call(draw.normal(B, T, E)), {"p": 1.0}, training=True),
        Case("not contiguous", lambda draw: Call(draw.normal(B, E, T).transpose(1, 2)), {"p": 0.3}, training=True),
        Case("nothing", lambda draw: Call(draw.normal(B, 0, E)), {"p": 0.3}, training=True),
    ),
    errors=(
        ErrorCase("negative probability", ValueError, ("p", "between 0 and 1", "-0.1"), {"p": -0.1}),
        ErrorCase("probability above one", ValueError, ("p", "between 0 and 1", "1.1"), {"p": 1.1}),
    ),
    invariants=invariants.DROPOUT,
)

LAYERS = (LINEAR, EMBEDDING, DROPOUT)
