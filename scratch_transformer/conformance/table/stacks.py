"""Encoder and decoder layers, the stacks, and the whole Transformer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn as builtin
from torch import Tensor

import scratch_transformer.nn as ours
from scratch_transformer.conformance import invariants
from scratch_transformer.conformance.component import Call, Case, Component, ErrorCase
from scratch_transformer.conformance.draw import FF, B, Draw, E, H, S, T

_SIZES = {"d_model": E, "nhead": H, "dim_feedforward": FF, "dropout": 0.0}
_LAYER = {**_SIZES, "batch_first": True}
_DEPTH = {"num_encoder_layers": 2, "num_decoder_layers": 3}
_MODEL = {**_LAYER, **_DEPTH}


def _negative_part(x: Tensor) -> Tensor:
    """An activation of the user's own."""
    return x.clamp(max=0) * 0.7


_VARIANTS: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm": {"norm_first": True},
    "gelu": {"activation": "gelu"},
    "a callable activation": {"activation": _negative_part},
    "without bias": {"bias": False},
    "inflated eps, pre-norm": {"layer_norm_eps": 0.2, "norm_first": True},
}


def _variants(call: Any, init: Mapping[str, Any]) -> list[Case]:
    return [Case(name, call, {**init, **change}) for name, change in _VARIANTS.items()]


def _source(draw: Draw, **kwargs: Any) -> Call:
    return Call(draw.normal(B, S, E), **kwargs)


def _target(draw: Draw, **kwargs: Any) -> Call:
    return Call(draw.normal(B, T, E), draw.normal(B, S, E), **kwargs)


def _both(draw: Draw, **kwargs: Any) -> Call:
    return Call(draw.normal(B, S, E), draw.normal(B, T, E), **kwargs)


def _memory_masks(draw: Draw, side: str = "right") -> dict[str, Tensor]:
    """What a translation model passes: a causal target, padding on both sides."""
    return {
        "tgt_mask": draw.future(T),
        "tgt_key_padding_mask": draw.padding(B, T),
        "memory_key_padding_mask": draw.padding(B, S, side),
    }


_ENCODER_LAYER_ERRORS = (
    ErrorCase(
        "no such activation", RuntimeError, ("activation", "relu/gelu", "'tanh'"), {**_LAYER, "activation": "tanh"}
    ),
    ErrorCase("heads do not divide", AssertionError, ("embed_dim=12", "num_heads=5"), {**_LAYER, "nhead": 5}),
    ErrorCase("dropout above one", ValueError, ("p", "between 0 and 1", "2"), {**_LAYER, "dropout": 2}),
    ErrorCase(
        "hint without mask", RuntimeError, ("attn_mask", "is_causal"), _LAYER, lambda d: _source(d, is_causal=True)
    ),
)

ENCODER_LAYER = Component(
    "TransformerEncoderLayer",
    ours.TransformerEncoderLayer,
    builtin.TransformerEncoderLayer,
    "Vaswani et al. 2017, sections 3.1 and 3.3",
    cases=(
        *_variants(_source, _LAYER),
        Case("sequence first", lambda d: Call(d.normal(S, B, E)), _SIZES),
        Case("unbatched", lambda d: Call(d.normal(S, E)), _SIZES),
        Case("boolean mask and padding", lambda d: _source(d, src_mask=d.future(S), src_key_padding_mask=d.padding(B, S)), _LAYER),
        Case("float mask per head", lambda d: _source(d, src_mask=d.additive(d.some(B * H, S, S))), _LAYER),
        Case("left padding", lambda d: _source(d, src_key_padding_mask=d.padding(B, S, "left")), _LAYER),
        Case("causal hint", lambda d: _source(d, src_mask=d.future(S), is_causal=True), _LAYER),
        Case("dropout, post-norm", _source, {**_LAYER, "dropout": 0.3}, training=True),
        Case("dropout, pre-norm, masks", lambda d: _source(d, src_mask=d.future(S), src_key_padding_mask=d.padding(B, S)), {**_LAYER, "dropout": 0.3, "norm_first": True}, training=True),
        Case("dropout, sequence first", lambda d: Call(d.normal(S, B, E)), {**_SIZES, "dropout": 0.3}, training=True),
        Case("dropout, unbatched", lambda d: Call(d.normal(S, E)), {**_SIZES, "dropout": 0.3}, training=True),
    ),
    errors=(
        *_ENCODER_LAYER_ERRORS,
        ErrorCase("wrong width", AssertionError, ("query", "13", "embedding dimension of 12"), _LAYER, lambda d: Call(d.normal(B, S, 13))),
        ErrorCase("src of four dimensions", AssertionError, ("query", "4-D"), _LAYER, lambda d: Call(d.normal(1, B, S, E))),
        ErrorCase("mask of another length", RuntimeError, ("attn_mask", "(5, 5)", "(7, 7)"), _LAYER, lambda d: _source(d, src_mask=d.future(T))),
        ErrorCase("padding of another length", AssertionError, ("key_padding_mask", "(2, 5)", "(2, 7)"), _LAYER, lambda d: _source(d, src_key_padding_mask=d.padding(B, T))),
    ),
    invariants=invariants.ENCODER_LAYER,
)  # fmt: skip

DECODER_LAYER = Component(
    "TransformerDecoderLayer",
    ours.TransformerDecoderLayer,
    builtin.TransformerDecoderLayer,
    "Vaswani et al. 2017, sections 3.1 and 3.2.3",
    cases=(
        *_variants(_target, _LAYER),
        Case("sequence first", lambda d: Call(d.normal(T, B, E), d.normal(S, B, E)), _SIZES),
        Case("unbatched", lambda d: Call(d.normal(T, E), d.normal(S, E)), _SIZES),
        Case("as in translation", lambda d: _target(d, **_memory_masks(d)), _LAYER),
        Case("as in translation, left padding, pre-norm", lambda d: _target(d, **_memory_masks(d, "left")), {**_LAYER, "norm_first": True}),
        Case("memory mask", lambda d: _target(d, memory_mask=d.some(T, S)), _LAYER),
        Case("float masks", lambda d: _target(d, tgt_mask=d.additive(d.future(T)), memory_mask=d.normal(B * H, T, S)), _LAYER),
        Case("causal hints", lambda d: _target(d, tgt_mask=d.future(T), tgt_is_causal=True, memory_mask=d.some(T, S), memory_is_causal=True), _LAYER),
        Case("dropout", lambda d: _target(d, **_memory_masks(d)), {**_LAYER, "dropout": 0.3}, training=True),
        Case("dropout, pre-norm, sequence first", lambda d: Call(d.normal(T, B, E), d.normal(S, B, E)), {**_SIZES, "dropout": 0.3, "norm_first": True}, training=True),
    ),
    errors=(
        *(_ENCODER_LAYER_ERRORS[:3]),
        ErrorCase("hint without mask", RuntimeError, ("attn_mask", "is_causal"), _LAYER, lambda d: _target(d, tgt_is_causal=True)),
        ErrorCase("memory of another batch size", RuntimeError, ("query", "key", "batch", "2", "3"), _LAYER, lambda d: Call(d.normal(B, T, E), d.normal(3, S, E))),
        ErrorCase("memory unbatched", AssertionError, ("key", "2-D", "3-D"), _LAYER, lambda d: Call(d.normal(B, T, E), d.normal(S, E))),
        ErrorCase("memory mask transposed", RuntimeError, ("attn_mask", "(7, 5)", "(5, 7)"), _LAYER, lambda d: _target(d, memory_mask=d.some(S, T))),
    ),
    invariants=invariants.DECODER_LAYER,
)  # fmt: skip


def _assemble(stack: type, num_layers: int = 2, final_norm: bool = True, **layer: Any) -> torch.nn.Module:
    """A stack from the arguments of its layers, all from the library that the stack is from."""
    library = ours if stack.__module__.startswith(ours.__name__) else builtin
    layer_class = getattr(library, f"{stack.__name__}Layer")
    norm = library.LayerNorm(layer["d_model"]) if final_norm else None
    # without nested tensors torch's encoder takes no fast path, and doesn't warn about it
    options = {"enable_nested_tensor": False} if stack.__name__ == "TransformerEncoder" else {}
    return stack(layer_class(**layer), num_layers, norm, **options)


ENCODER = Component(
    "TransformerEncoder",
    ours.TransformerEncoder,
    builtin.TransformerEncoder,
    "Vaswani et al. 2017, section 3.1",
    assemble=_assemble,
    cases=(
        Case("post-norm with a final norm", _source, _LAYER),
        Case("post-norm as in the paper", _source, {**_LAYER, "final_norm": False}),
        Case("pre-norm, three layers", _source, {**_LAYER, "norm_first": True, "num_layers": 3}),
        Case("one layer", _source, {**_LAYER, "num_layers": 1, "final_norm": False}),
        Case("mask and padding", lambda d: _source(d, mask=d.future(S), src_key_padding_mask=d.padding(B, S)), _LAYER),
        Case("left padding", lambda d: _source(d, src_key_padding_mask=d.padding(B, S, "left")), _LAYER),
        Case("a boolean causal mask is recognised", lambda d: _source(d, mask=d.future(S)), _LAYER),
        Case("a float causal mask is recognised", lambda d: _source(d, mask=builtin.Transformer.generate_square_subsequent_mask(S, torch.device(d.device), d.dtype)), _LAYER),
        Case("causal hint", lambda d: _source(d, mask=d.future(S), is_causal=True), _LAYER),
        Case("sequence first", lambda d: Call(d.normal(S, B, E)), _SIZES),
        Case("unbatched", lambda d: Call(d.normal(S, E)), _SIZES),
        Case("dropout", lambda d: _source(d, src_key_padding_mask=d.padding(B, S)), {**_LAYER, "dropout": 0.3}, training=True),
    ),
    errors=(
        ErrorCase("hint without mask", RuntimeError, ("attn_mask", "is_causal"), _LAYER, lambda d: _source(d, is_causal=True)),
        ErrorCase("wrong width", AssertionError, ("query", "13", "embedding dimension of 12"), _LAYER, lambda d: Call(d.normal(B, S, 13))),
        ErrorCase("integer mask", AssertionError, ("attn_mask", "bool", "int64"), _LAYER, lambda d: _source(d, mask=d.ids(S, S))),
    ),
    invariants=invariants.ENCODER,
)  # fmt: skip

DECODER = Component(
    "TransformerDecoder",
    ours.TransformerDecoder,
    builtin.TransformerDecoder,
    "Vaswani et al. 2017, section 3.1",
    assemble=_assemble,
    cases=(
        Case("post-norm with a final norm", _target, _LAYER),
        Case("post-norm as in the paper", _target, {**_LAYER, "final_norm": False}),
        Case("pre-norm, three layers", _target, {**_LAYER, "norm_first": True, "num_layers": 3}),
        Case("as in translation", lambda d: _target(d, **_memory_masks(d)), _LAYER),
        Case("causal hint", lambda d: _target(d, tgt_mask=d.future(T), tgt_is_causal=True), _LAYER),
        Case("sequence first", lambda d: Call(d.normal(T, B, E), d.normal(S, B, E)), _SIZES),
        Case("unbatched", lambda d: Call(d.normal(T, E), d.normal(S, E)), _SIZES),
        Case("dropout", lambda d: _target(d, **_memory_masks(d)), {**_LAYER, "dropout": 0.3}, training=True),
    ),
    errors=(
        ErrorCase("memory of another batch size", RuntimeError, ("query", "key", "batch", "2", "3"), _LAYER, lambda d: Call(d.normal(B, T, E), d.normal(3, S, E))),
        ErrorCase("wrong width", AssertionError, ("query", "13", "embedding dimension of 12"), _LAYER, lambda d: Call(d.normal(B, T, 13), d.normal(B, S, E))),
    ),
    invariants=invariants.DECODER,
)  # fmt: skip

TRANSFORMER = Component(
    "Transformer",
    ours.Transformer,
    builtin.Transformer,
    "Vaswani et al. 2017, figure 1",
    cases=(
        *_variants(_both, _MODEL),
        Case("as in translation", lambda d: _both(d, src_key_padding_mask=d.padding(B, S), **_memory_masks(d)), _MODEL),
        Case("as in translation, left padding, pre-norm", lambda d: _both(d, src_key_padding_mask=d.padding(B, S, "left"), **_memory_masks(d, "left")), {**_MODEL, "norm_first": True}),
        Case("all masks", lambda d: _both(d, src_mask=d.some(S, S), memory_mask=d.some(T, S), tgt_mask=d.additive(d.future(T))), _MODEL),
        Case("causal hints", lambda d: _both(d, src_mask=d.future(S), src_is_causal=True, tgt_mask=d.future(T), tgt_is_causal=True), _MODEL),
        Case("sequence first", lambda d: Call(d.normal(S, B, E), d.normal(T, B, E)), {**_SIZES, **_DEPTH}),
        Case("unbatched", lambda d: Call(d.normal(S, E), d.normal(T, E)), {**_SIZES, **_DEPTH}),
        Case("dropout", lambda d: _both(d, src_key_padding_mask=d.padding(B, S), **_memory_masks(d)), {**_MODEL, "dropout": 0.1}, training=True),
        Case("dropout, pre-norm, sequence first", lambda d: Call(d.normal(S, B, E), d.normal(T, B, E)), {**_SIZES, **_DEPTH, "dropout": 0.1, "norm_first": True}, training=True),
    ),
    errors=(
        ErrorCase("batch sizes differ", RuntimeError, ("batch number", "(2, 7, 12)", "(3, 5, 12)"), _MODEL, lambda d: Call(d.normal(B, S, E), d.normal(3, T, E))),
        ErrorCase("batch sizes differ, sequence first", RuntimeError, ("batch number", "batch_first=False"), {**_SIZES, **_DEPTH}, lambda d: Call(d.normal(S, B, E), d.normal(T, 3, E))),
        ErrorCase("src too wide", RuntimeError, ("feature number", "d_model=12", "(2, 7, 13)"), _MODEL, lambda d: Call(d.normal(B, S, 13), d.normal(B, T, E))),
        ErrorCase("tgt too wide", RuntimeError, ("feature number", "d_model=12", "(2, 5, 13)"), _MODEL, lambda d: Call(d.normal(B, S, E), d.normal(B, T, 13))),
        ErrorCase("no such activation", RuntimeError, ("activation", "relu/gelu", "'swish'"), {**_MODEL, "activation": "swish"}),
        ErrorCase("src mask of the target", RuntimeError, ("attn_mask", "(5, 5)", "(7, 7)"), _MODEL, lambda d: _both(d, src_mask=d.future(T))),
    ),
    invariants=invariants.TRANSFORMER,
)  # fmt: skip

STACKS = (ENCODER_LAYER, DECODER_LAYER, ENCODER, DECODER, TRANSFORMER)
