"""Scaled dot-product attention and multi-head attention, with every form of mask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.nn as builtin
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as builtin_attention

import scratch_transformer.nn as ours
from scratch_transformer.attention import scaled_dot_product_attention as our_attention
from scratch_transformer.conformance import invariants
from scratch_transformer.conformance.component import Call, Case, Component, ErrorCase
from scratch_transformer.conformance.draw import KDIM, VDIM, B, D, Draw, E, H, S, T
from scratch_transformer.conformance.environment import TORCH


def _qkv(draw: Draw, *, keys: int = S, heads: int = H, value_width: int = D) -> tuple[Tensor, Tensor, Tensor]:
    return draw.normal(B, H, T, D), draw.normal(B, heads, keys, D), draw.normal(B, heads, keys, value_width)


MASKED_AND_CAUSAL = (
    ()
    if TORCH >= (2, 14)  # which takes one or the other; ours takes both
    else (Case("boolean mask and causal", lambda draw: Call(*_qkv(draw), attn_mask=~draw.some(T, S), is_causal=True)),)
)
SDPA = Component(
    "scaled_dot_product_attention",
    our_attention,
    builtin_attention,
    "Vaswani et al. 2017, section 3.2.1, equation 1",
    cases=(
        Case("plain", lambda draw: Call(*_qkv(draw))),
        Case("causal", lambda draw: Call(*_qkv(draw, keys=T), is_causal=True)),
        Case("causal, more keys than queries", lambda draw: Call(*_qkv(draw), is_causal=True)),
        Case("causal, fewer keys than queries", lambda draw: Call(*_qkv(draw, keys=3), is_causal=True)),
        Case("boolean mask (T, S)", lambda draw: Call(*_qkv(draw), attn_mask=~draw.some(T, S))),
        Case("boolean mask (B, H, T, S)", lambda draw: Call(*_qkv(draw), attn_mask=~draw.some(B, H, T, S))),
        Case("boolean mask (B, 1, 1, S)", lambda draw: Call(*_qkv(draw), attn_mask=~draw.some(B, 1, 1, S))),
        Case("boolean mask (T, 1)", lambda draw: Call(*_qkv(draw), attn_mask=~draw.some(T, 2)[:, :1])),
        Case("float mask (T, S)", lambda draw: Call(*_qkv(draw), attn_mask=draw.normal(T, S))),
        Case("float mask (B, H, T, S)", lambda draw: Call(*_qkv(draw), attn_mask=draw.normal(B, H, T, S))),
        Case("float mask with -inf", lambda draw: Call(*_qkv(draw), attn_mask=draw.additive(draw.some(B, 1, T, S)))),
        *MASKED_AND_CAUSAL,
        Case("scale", lambda draw: Call(*_qkv(draw), scale=0.3)),
        Case("wide values", lambda draw: Call(*_qkv(draw, value_width=VDIM))),
        Case("grouped queries", lambda draw: Call(*_qkv(draw, heads=1), enable_gqa=True)),
        Case("dropout", lambda draw: Call(*_qkv(draw), dropout_p=0.3)),
        Case("dropout with a mask", lambda draw: Call(*_qkv(draw), attn_mask=~draw.some(T, S), dropout_p=0.3)),
        Case("without heads", lambda draw: Call(draw.normal(B, T, D), draw.normal(B, S, D), draw.normal(B, S, D))),
        Case("one sequence", lambda draw: Call(draw.normal(T, D), draw.normal(S, D), draw.normal(S, D))),
        Case("large scores", lambda draw: Call(*_qkv(draw), scale=40.0)),
        Case("not contiguous", lambda draw: Call(*(x.transpose(1, 2) for x in (draw.normal(B, n, H, D) for n in (T, S, S))))),
    ),
    errors=(
        ErrorCase("widths differ", RuntimeError, ("query", "key", "width", "(2, 3, 7, 9)"), call=lambda d: Call(d.normal(B, H, T, D), d.normal(B, H, S, 9), d.normal(B, H, S, D))),
        ErrorCase("a key without value", RuntimeError, ("key", "value", "(2, 3, 6, 4)"), call=lambda d: Call(d.normal(B, H, T, D), d.normal(B, H, S, D), d.normal(B, H, 6, D)), torch_raises=False),
        ErrorCase("dtypes differ", RuntimeError, ("key", "float32", "float64"), call=lambda d: Call(d.normal(T, D).double(), d.normal(S, D).float(), d.normal(S, D).double())),
        ErrorCase("one dimension", RuntimeError, ("query", "2 dimensions", "(4,)"), call=lambda d: Call(d.normal(D), d.normal(S, D), d.normal(S, D))),
        ErrorCase("integer mask", RuntimeError, ("attn_mask", "bool", "int64"), call=lambda d: Call(*_qkv(d), attn_mask=d.ids(T, S))),
        ErrorCase("mask of the wrong shape", RuntimeError, ("attn_mask", "(5, 6)", "(..., 5, 7)"), call=lambda d: Call(*_qkv(d), attn_mask=~d.some(T, 6))),
        ErrorCase("heads without enable_gqa", RuntimeError, ("heads", "enable_gqa", "3", "2"), call=lambda d: Call(*_qkv(d, heads=2))),
        ErrorCase("heads that do not divide", RuntimeError, ("heads", "multiple", "3", "2"), call=lambda d: Call(*_qkv(d, heads=2), enable_gqa=True)),
        ErrorCase("dropout above one", RuntimeError, ("dropout_p", "between 0 and 1", "1.5"), call=lambda d: Call(*_qkv(d), dropout_p=1.5)),
    ),
    invariants=invariants.SDPA,
)  # fmt: skip


def _cross(draw: Draw, **kwargs: Any) -> Call:
    return Call(draw.normal(B, T, E), draw.normal(B, S, E), draw.normal(B, S, E), **kwargs)


def _self(draw: Draw, **kwargs: Any) -> Call:
    x = draw.normal(B, T, E)
    return Call(x, x, x, **kwargs)


Masks = Callable[[Draw], dict[str, Tensor]]
_HEADS = {"embed_dim": E, "num_heads": H}
_MHA = {**_HEADS, "batch_first": True}


def _mask_cases() -> list[Case]:
    forms: dict[str, Masks] = {
        "boolean attn_mask (T, S)": lambda d: {"attn_mask": d.some(T, S)},
        "boolean attn_mask (B·H, T, S)": lambda d: {"attn_mask": d.some(B * H, T, S)},
        "float attn_mask (T, S)": lambda d: {"attn_mask": d.additive(d.some(T, S))},
        "float attn_mask (B·H, T, S)": lambda d: {"attn_mask": d.additive(d.some(B * H, T, S))},
        "right padding": lambda d: {"key_padding_mask": d.padding(B, S)},
        "left padding": lambda d: {"key_padding_mask": d.padding(B, S, "left")},
        "float padding": lambda d: {"key_padding_mask": d.additive(d.padding(B, S))},
        "padding and boolean attn_mask": lambda d: {
            "key_padding_mask": d.padding(B, S),
            "attn_mask": d.future(S)[1 : T + 1],
        },
        "float padding and float attn_mask (B·H, T, S)": lambda d: {
            "key_padding_mask": d.additive(d.padding(B, S)),
            "attn_mask": d.normal(B * H, T, S),
        },
    }
    return [
        Case(f"{name}, need_weights={need}", _masked(form, need), _MHA)
        for name, form in forms.items()
        for need in (True, False)
    ]


def _masked(form: Masks, need_weights: bool) -> Callable[[Draw], Call]:
    return lambda draw: _cross(draw, need_weights=need_weights, **form(draw))


MULTIHEAD_ATTENTION = Component(
    "MultiheadAttention",
    ours.MultiheadAttention,
    builtin.MultiheadAttention,
    "Vaswani et al. 2017, section 3.2.2",
    cases=(
        Case("self-attention", _self, _MHA),
        Case("cross-attention", _cross, _MHA),
        Case("sequence first", lambda d: Call(d.normal(T, B, E), d.normal(S, B, E), d.normal(S, B, E)), _HEADS),
        Case("unbatched", lambda d: Call(d.normal(T, E), d.normal(S, E), d.normal(S, E)), _HEADS),
        Case("unbatched, weights per head, masks", lambda d: Call(d.normal(T, E), d.normal(S, E), d.normal(S, E), key_padding_mask=d.padding(2, S)[1], attn_mask=d.some(H, T, S), average_attn_weights=False), _HEADS),
        Case("weights per head", lambda d: _cross(d, average_attn_weights=False), _MHA),
        Case("no weights", lambda d: _cross(d, need_weights=False), _MHA),
        Case("without bias", _cross, {**_MHA, "bias": False}),
        Case("kdim and vdim", lambda d: Call(d.normal(B, T, E), d.normal(B, S, KDIM), d.normal(B, S, VDIM)), {**_MHA, "kdim": KDIM, "vdim": VDIM}),
        Case("kdim and vdim without bias", lambda d: Call(d.normal(B, T, E), d.normal(B, S, KDIM), d.normal(B, S, E)), {**_MHA, "kdim": KDIM, "bias": False}),
        Case("add_bias_kv", lambda d: _cross(d, key_padding_mask=d.padding(B, S), attn_mask=d.some(T, S)), {**_MHA, "add_bias_kv": True}),
        Case("add_zero_attn", lambda d: _cross(d, key_padding_mask=d.padding(B, S), need_weights=False), {**_MHA, "add_zero_attn": True}),
        Case("add_bias_kv and add_zero_attn", lambda d: _cross(d, attn_mask=d.additive(d.some(B * H, T, S))), {**_MHA, "add_bias_kv": True, "add_zero_attn": True}),
        Case("causal hint", lambda d: _self(d, attn_mask=d.future(T), is_causal=True, need_weights=False), _MHA),
        Case("causal hint, weights", lambda d: _self(d, attn_mask=d.future(T), is_causal=True), _MHA),
        Case("causal hint and padding", lambda d: _self(d, attn_mask=d.future(T), is_causal=True, key_padding_mask=d.padding(B, T), need_weights=False), _MHA),
        Case("a causal hint is believed", lambda d: _self(d, attn_mask=d.some(T, T), is_causal=True, need_weights=False), _MHA),
        Case("dropout", lambda d: _cross(d, need_weights=False), {**_MHA, "dropout": 0.3}, training=True),
        Case("dropout, weights", _cross, {**_MHA, "dropout": 0.3}, training=True),
        Case("dropout, sequence first, mask", lambda d: Call(d.normal(T, B, E), d.normal(S, B, E), d.normal(S, B, E), attn_mask=d.some(T, S), need_weights=False), {**_HEADS, "dropout": 0.3}, training=True),
        Case("dropout without training", _cross, {**_MHA, "dropout": 0.3}),
        *_mask_cases(),
    ),
    errors=(
        ErrorCase("heads do not divide", AssertionError, ("embed_dim=12", "num_heads=5"), {"embed_dim": E, "num_heads": 5}),
        ErrorCase("no heads", ValueError, ("num_heads=0", "greater than 0"), {"embed_dim": E, "num_heads": 0}),
        ErrorCase("no width", ValueError, ("embed_dim=-12", "greater than 0"), {"embed_dim": -E, "num_heads": H}),
        ErrorCase("query of four dimensions", AssertionError, ("query", "4-D", "2D", "3D"), _MHA, lambda d: Call(d.normal(1, B, T, E), d.normal(B, S, E), d.normal(B, S, E))),
        ErrorCase("key unbatched", AssertionError, ("key", "2-D", "3-D"), _MHA, lambda d: Call(d.normal(B, T, E), d.normal(S, E), d.normal(S, E))),
        ErrorCase("value batched", AssertionError, ("value", "3-D", "2-D"), _MHA, lambda d: Call(d.normal(T, E), d.normal(S, E), d.normal(B, S, E))),
        ErrorCase("query too wide", AssertionError, ("query", "13", "embedding dimension of 12"), _MHA, lambda d: Call(d.normal(B, T, 13), d.normal(B, S, E), d.normal(B, S, E))),
        ErrorCase("key too wide", RuntimeError, ("key", "12 features", "(2, 7, 13)"), _MHA, lambda d: Call(d.normal(B, T, E), d.normal(B, S, 13), d.normal(B, S, 13))),
        ErrorCase("value wider than vdim", AssertionError, ("value", "9 features", "vdim", "(2, 7, 12)"), {**_MHA, "vdim": VDIM}, lambda d: Call(d.normal(B, T, E), d.normal(B, S, E), d.normal(B, S, E))),
        ErrorCase("keys without values", AssertionError, ("key", "(2, 7, 12)", "value", "(2, 6, 12)"), _MHA, lambda d: Call(d.normal(B, T, E), d.normal(B, S, E), d.normal(B, 6, E))),
        ErrorCase("another batch size", RuntimeError, ("query", "key", "batch", "2", "3"), _MHA, lambda d: Call(d.normal(B, T, E), d.normal(3, S, E), d.normal(3, S, E))),
        ErrorCase("padding mask of queries", AssertionError, ("key_padding_mask", "(2, 7)", "(2, 5)"), _MHA, lambda d: _cross(d, key_padding_mask=d.padding(B, T))),
        ErrorCase("padding mask of three dimensions", AssertionError, ("key_padding_mask", "2-D", "3-D"), _MHA, lambda d: _cross(d, key_padding_mask=d.some(B, 1, S))),
        ErrorCase("integer padding mask", AssertionError, ("key_padding_mask", "bool", "int64"), _MHA, lambda d: _cross(d, key_padding_mask=d.ids(B, S))),
        ErrorCase("integer attn_mask", AssertionError, ("attn_mask", "bool", "int64"), _MHA, lambda d: _cross(d, attn_mask=d.ids(T, S))),
        ErrorCase("transposed attn_mask", RuntimeError, ("attn_mask", "(7, 5)", "(5, 7)"), _MHA, lambda d: _cross(d, attn_mask=d.some(S, T))),
        ErrorCase("attn_mask per sample, not per head", RuntimeError, ("attn_mask", "(2, 5, 7)", "(6, 5, 7)"), _MHA, lambda d: _cross(d, attn_mask=d.some(B, T, S))),
        ErrorCase("attn_mask of four dimensions", AssertionError, ("attn_mask", "4-D", "2-D or 3-D"), _MHA, lambda d: _cross(d, attn_mask=d.some(B, H, T, S))),
        ErrorCase("unbatched attn_mask per head", AssertionError, ("attn_mask", "(2, 5, 7)", "(3, 5, 7)"), _MHA, lambda d: Call(d.normal(T, E), d.normal(S, E), d.normal(S, E), attn_mask=d.some(2, T, S))),
        ErrorCase("hint without mask", RuntimeError, ("attn_mask", "is_causal"), _MHA, lambda d: _self(d, is_causal=True)),
    ),
    invariants=invariants.MULTIHEAD_ATTENTION,
)  # fmt: skip

ATTENTION = (SDPA, MULTIHEAD_ATTENTION)
