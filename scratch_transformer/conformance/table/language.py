"""The parts of a language model. Where torch.nn has none, the counterpart is put together from what it has."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import scratch_transformer.nn as ours
from scratch_transformer.conformance import counterparts, invariants
from scratch_transformer.conformance.component import Call, Case, Component, ErrorCase
from scratch_transformer.conformance.draw import FF, B, Draw, E, H, T
from scratch_transformer.functional import RotaryScaling

D = 8  # width of a head: four pairs
_ROTARY = {"d": D}


def _positioned(draw: Draw, width: int = D) -> Call:
    """Queries at positions of their own, not in order."""
    return Call(draw.normal(B, H, T, width), draw.ids(B, T, below=50))


def _in_order(draw: Draw, width: int = D, first: int = 0) -> Call:
    return Call(draw.normal(B, H, T, width), torch.arange(first, first + T, device=draw.device))


ROTARY_EMBEDDING = Component(
    "RotaryEmbedding",
    ours.RotaryEmbedding,
    counterparts.RotaryEmbedding,
    "Su et al. 2021, section 3.2.2",
    cases=(
        Case("halves", _in_order, _ROTARY),
        Case("neighbours", _in_order, {**_ROTARY, "interleaved": True}),
        Case("positions of each sample", _positioned, _ROTARY),
        Case("positions of each sample, neighbours", _positioned, {**_ROTARY, "interleaved": True}),
        Case("late positions", lambda d: _in_order(d, first=100_000), _ROTARY),
        Case("another base", _positioned, {**_ROTARY, "base": 500_000.0}),
        Case("linear scaling", _positioned, {**_ROTARY, "scaling": RotaryScaling(3.0)}),
        # of the eight pairs some turn more than twice in 32 tokens, some less than half, and some in between
        Case(
            "Llama 3's scaling",
            lambda d: _positioned(d, 16),
            {"d": 16, "scaling": RotaryScaling(8.0, 0.5, 2.0, 32)},
        ),
        Case("one pair", lambda d: _positioned(d, 2), {"d": 2}),
        Case("one token", lambda d: Call(d.normal(B, H, 1, D), torch.tensor([7], device=d.device)), _ROTARY),
        Case("without heads", lambda d: Call(d.normal(T, D), torch.arange(T, device=d.device)), _ROTARY),
        Case("no tokens", lambda d: Call(d.normal(B, H, 0, D), torch.arange(0, device=d.device)), _ROTARY),
    ),
    errors=(
        ErrorCase("an odd width", ValueError, ("d", "even", "7"), {"d": 7}, torch_raises=False),
        ErrorCase("no width", ValueError, ("d", "positive", "0"), {"d": 0}, torch_raises=False),
        ErrorCase("base zero", ValueError, ("base", "positive", "0.0"), {"d": D, "base": 0.0}, torch_raises=False),
        ErrorCase(
            "another width", RuntimeError, ("turns", "(2, 5, 4)", "(2, 3, 5, 6)"), _ROTARY, lambda d: _in_order(d, 6)
        ),
        ErrorCase(
            "positions of other tokens",
            RuntimeError,
            ("turns", "(2, 6, 4)", "(2, 3, 5, 8)"),
            _ROTARY,
            lambda d: Call(d.normal(B, H, T, D), torch.arange(T + 1)),
        ),
        ErrorCase(
            "integers",
            RuntimeError,
            ("x", "floating", "int64"),
            _ROTARY,
            lambda d: Call(d.ids(B, H, T, D), torch.arange(T)),
            torch_raises=False,
        ),
    ),
    invariants=invariants.ROTARY,
)

_GATED = {"d_model": E, "d_ff": FF}


def _tokens(draw: Draw) -> Call:
    return Call(draw.normal(B, T, E))


GATED_FEED_FORWARD = Component(
    "GatedFeedForward",
    ours.GatedFeedForward,
    counterparts.GatedFeedForward,
    "Shazeer 2020, equations 5 and 6",
    cases=(
        Case("SwiGLU", _tokens, _GATED),
        Case("SwiGLU with bias", _tokens, {**_GATED, "bias": True}),
        Case("SwiGLU, far out", lambda d: Call(d.normal(B, T, E, scale=30.0)), {**_GATED, "bias": True}),
        Case("GEGLU", _tokens, {**_GATED, "activation": "gelu"}),
        Case("GEGLU by tanh", _tokens, {**_GATED, "activation": "gelu_tanh"}),
        Case("ReGLU", _tokens, {**_GATED, "activation": "relu"}),
        Case("GLU", _tokens, {**_GATED, "activation": "sigmoid", "bias": True}),
        Case("one token", lambda d: Call(d.normal(E)), _GATED),
        Case("not contiguous", lambda d: Call(d.normal(B, E, T).transpose(1, 2)), _GATED),
        Case("no tokens", lambda d: Call(d.normal(B, 0, E)), _GATED),
    ),
    errors=(
        ErrorCase(
            "no such activation",
            ValueError,
            ("activation", "silu", "gelu_tanh", "'swish'"),
            {**_GATED, "activation": "swish"},
            torch_raises=False,
        ),
        ErrorCase("wrong width", RuntimeError, ("x", "(2, 5, 13)", "12"), _GATED, lambda d: Call(d.normal(B, T, 13))),
        ErrorCase(
            "another dtype", RuntimeError, ("x", "float32", "float64"), _GATED, lambda d: Call(d.normal(T, E).double())
        ),
    ),
    invariants=invariants.GATED_FEED_FORWARD,
)


def _turns(draw: Draw, *shape: int) -> Tensor:
    """Cosines and sines of random angles."""
    angles = draw.normal(*shape, D // 2, scale=3.0)
    return torch.stack((angles.cos(), angles.sin()))


def _self(draw: Draw, turned: bool = False, **options: Any) -> Call:
    x = draw.normal(B, T, E)
    return Call(x, _turns(draw, T), **options) if turned else Call(x, **options)


def _documents(draw: Draw) -> Tensor:
    """Which token belongs to which of two texts, packed one behind the other: (1, 1, T, T), True = the same."""
    text = torch.arange(T, device=draw.device) >= 2
    return (text == text.unsqueeze(-1))[None, None]


def _some(draw: Draw) -> Tensor:
    """For every query of every head other tokens, and always itself: (B, 2H, T, T)."""
    return ~draw.some(B, 2 * H, T, T) | torch.eye(T, dtype=torch.bool, device=draw.device)


_HEADS = {"d_model": E, "num_heads": H}
_GROUPED = {"d_model": E, "num_heads": 2 * H, "num_kv_heads": H, "head_dim": D}

CAUSAL_SELF_ATTENTION = Component(
    "CausalSelfAttention",
    ours.CausalSelfAttention,
    counterparts.CausalSelfAttention,
    "Vaswani et al. 2017, section 3.2.3; Ainslie et al. 2023",
    cases=(
        Case("as GPT-2's", _self, {**_HEADS, "bias": True}),
        Case("as Llama's", lambda d: _self(d, turned=True), _GROUPED),
        Case("as Qwen 2's", lambda d: _self(d, turned=True), {**_GROUPED, "bias": True, "output_bias": False}),
        Case("as Qwen 3's", lambda d: _self(d, turned=True), {**_GROUPED, "query_key_norm": 1e-6}),
        Case("without bias", _self, _HEADS),
        Case("grouped queries", _self, {**_GROUPED, "bias": True}),
        Case("all queries share one key", _self, {"d_model": E, "num_heads": H, "num_kv_heads": 1, "bias": True}),
        Case("query and key norm, large eps", _self, {**_GROUPED, "query_key_norm": 0.3}),
        Case("turned neighbours", lambda d: _self(d, turned=True), {**_GROUPED, "interleaved": True}),
        Case("turns of each sample", lambda d: Call(d.normal(B, T, E), _turns(d, B, 1, T)), _GROUPED),
        Case("right padding", lambda d: _self(d, turned=True, mask=~d.padding(B, T)[:, None, None]), _GROUPED),
        Case("packed texts", lambda d: _self(d, turned=True, mask=_documents(d)), _GROUPED),
        Case("a mask for every head", lambda d: _self(d, mask=_some(d)), _GROUPED),
        Case("one token", lambda d: Call(d.normal(B, 1, E)), _GROUPED),
        Case("dropout", _self, {**_GROUPED, "dropout": 0.3}, training=True),
        Case("dropout without training", _self, {**_GROUPED, "dropout": 0.3}),
    ),
    errors=(
        ErrorCase("shared keys do not divide", ValueError, ("num_heads=3", "num_kv_heads=2"), {**_HEADS, "num_kv_heads": 2}, torch_raises=False),
        ErrorCase("heads do not divide", ValueError, ("d_model=12", "num_heads=5", "head_dim"), {"d_model": E, "num_heads": 5}, torch_raises=False),
        ErrorCase("no heads", ValueError, ("num_heads=0", "positive"), {"d_model": E, "num_heads": 0}, torch_raises=False),
        ErrorCase("dropout above one", ValueError, ("p", "between 0 and 1", "1.5"), {**_HEADS, "dropout": 1.5}, torch_raises=False),
        ErrorCase("wrong width", RuntimeError, ("x", "d_model=12", "(2, 5, 13)"), _HEADS, lambda d: Call(d.normal(B, T, 13))),
        ErrorCase("no batch", RuntimeError, ("x", "(B, L, d_model=12)", "(5, 12)"), _HEADS, lambda d: Call(d.normal(T, E))),
        ErrorCase("turns of another width", RuntimeError, ("turns", "(2, 5, 4)", "(2, 3, 5, 4)"), _HEADS, lambda d: _self(d, turned=True)),
        ErrorCase("integer mask", RuntimeError, ("attn_mask", "bool", "int64"), _HEADS, lambda d: _self(d, mask=d.ids(T, T))),
        ErrorCase("mask of other keys", RuntimeError, ("attn_mask", "(5, 6)", "(..., 5, 5)"), _HEADS, lambda d: _self(d, mask=~d.some(T, 6))),
    ),
    invariants=invariants.CAUSAL_SELF_ATTENTION,
)  # fmt: skip

LANGUAGE = (ROTARY_EMBEDDING, GATED_FEED_FORWARD, CAUSAL_SELF_ATTENTION)
