"""What holds for encoder and decoder, a layer or a stack of them, and for the Transformer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from scratch_transformer.conformance.draw import Draw
from scratch_transformer.conformance.invariants.setting import (
    DEFAULT,
    Build,
    Setting,
    difference,
    influence,
    named,
    order,
    prepared,
)

Sequences = Callable[..., Tensor]


def _layer(build: Build, draw: Draw, s: Setting) -> Sequences:
    return s.sequences(prepared(build(**s.layer), draw))


def _transformer(build: Build, draw: Draw, s: Setting) -> Sequences:
    return s.sequences(prepared(build(**s.layer, num_encoder_layers=2, num_decoder_layers=1), draw))


def _both(draw: Draw, s: Setting) -> tuple[Tensor, Tensor]:
    return draw.normal(s.B, s.S, s.E), draw.normal(s.B, s.T, s.E)


def _residual_error(build: Build, draw: Draw, s: Setting, *inputs: Tensor) -> float:
    """With attention and feed-forward that return zero: how far the layer is from its norms, or from the identity."""
    layer: Any = prepared(build(**s.layer), draw)
    attentions = (getattr(layer, name) for name in ("self_attn", "multihead_attn") if hasattr(layer, name))
    with torch.no_grad():
        for last in (layer.linear2, *(attention.out_proj for attention in attentions)):
            for parameter in last.parameters():
                parameter.zero_()
    expected = inputs[0]
    if not s.norm_first:
        for norm in (getattr(layer, name) for name in ("norm1", "norm2", "norm3") if hasattr(layer, name)):
            expected = norm(expected)
    return difference(s.sequences(layer)(*inputs), expected)


# ---- Encoder ----


def reorders_with_its_input(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """f(P x) = P f(x): an encoder without positions knows no order."""
    encode, (x, _), p = _layer(build, draw, s), _both(draw, s), order(s.S, draw)
    return difference(encode(x[:, p]), encode(x)[:, p])


def padding_is_invisible(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """The outputs at valid positions depend on nothing at padded positions, and are those without the padding."""
    encode, (x, _) = _layer(build, draw, s), _both(draw, s)
    padded = draw.padding(s.B, s.S, s.padding)
    mask, hidden = s.blocking(padded, draw), padded.unsqueeze(-1)  # (B, S, 1)

    def valid(x: Tensor) -> Tensor:
        return encode(x, src_key_padding_mask=mask).masked_fill(hidden, 0.0)

    alone = torch.cat([encode(x[i : i + 1, ~padded[i]])[0] for i in range(s.B)])
    plain = encode(x, src_key_padding_mask=padded)[~padded]
    return max(influence(valid, (x,), (hidden,)), difference(plain, alone))


def the_future_is_invisible(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """With a causal mask, outputs 0 … i depend on the inputs 0 … i only."""
    encode, (x, _), cut = _layer(build, draw, s), _both(draw, s), (s.S + 1) // 2
    mask = s.blocking(draw.future(s.S), draw)
    later = (torch.arange(s.S, device=draw.device) >= cut).unsqueeze(-1)
    return influence(lambda x: encode(x, masks=(mask,))[:, :cut], (x,), (later,))


def samples_stay_apart(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """f(x)[b] = f(x[b]), with the padding of sample b."""
    encode, (x, _) = _layer(build, draw, s), _both(draw, s)
    mask = s.blocking(draw.padding(s.B, s.S, s.padding), draw)
    each = zip(x.split(1), mask.split(1), strict=True)
    alone = [encode(sample, src_key_padding_mask=padding) for sample, padding in each]
    return difference(encode(x, src_key_padding_mask=mask), torch.cat(alone))


def evaluation_is_deterministic(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """f(x) = f(x) in evaluation: nothing is dropped."""
    encode, (x, _) = _layer(build, draw, s), _both(draw, s)
    return difference(encode(x), encode(x))


def residuals_remain(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """With sublayers that return zero a post-norm layer gives norm2(norm1(x)), a pre-norm layer x."""
    x, _ = _both(draw, s)
    return max(_residual_error(build, draw, replace(s, norm_first=first), x) for first in (False, True))


# ---- Decoder ----


def incremental_decoding_is_full_decoding(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """f(y, m)[t] = f(y[0 … t], m)[t] with causal masks: decoding step by step is decoding at once."""
    decode, (memory, y) = _layer(build, draw, s), _both(draw, s)
    steps = [decode(y[:, :t], memory, masks=(draw.future(t),))[:, -1] for t in range(1, s.T + 1)]
    return difference(decode(y, memory, masks=(draw.future(s.T),)), torch.stack(steps, dim=1))


def decoder_future_is_invisible(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """With a causal mask, outputs 0 … i depend on the targets 0 … i only."""
    decode, (memory, y), cut = _layer(build, draw, s), _both(draw, s), (s.T + 1) // 2
    mask = s.blocking(draw.future(s.T), draw)
    later = (torch.arange(s.T, device=draw.device) >= cut).unsqueeze(-1)
    return influence(lambda y, m: decode(y, m, masks=(mask,))[:, :cut], (y, memory), (later, None))


def memory_padding_is_invisible(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """Nothing depends on positions of the memory that memory_key_padding_mask blocks."""
    decode, (memory, y) = _layer(build, draw, s), _both(draw, s)
    padded = draw.padding(s.B, s.S, s.padding)
    options = {"memory_key_padding_mask": s.blocking(padded, draw)}
    return influence(lambda y, m: decode(y, m, **options), (y, memory), (None, padded.unsqueeze(-1)))


def the_order_of_memory_is_irrelevant(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """f(y, P m) = f(y, m): attention over the memory knows no order."""
    decode, (memory, y), p = _layer(build, draw, s), _both(draw, s), order(s.S, draw)
    return difference(decode(y, memory[:, p]), decode(y, memory))


def decoder_samples_stay_apart(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """f(y, m)[b] = f(y[b], m[b])."""
    decode, (memory, y) = _layer(build, draw, s), _both(draw, s)
    alone = [decode(*each) for each in zip(y.split(1), memory.split(1), strict=True)]
    return difference(decode(y, memory), torch.cat(alone))


def decoder_residuals_remain(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """With sublayers that return zero a post-norm layer gives norm3(norm2(norm1(y))), a pre-norm layer y."""
    memory, y = _both(draw, s)
    return max(_residual_error(build, draw, replace(s, norm_first=first), y, memory) for first in (False, True))


# ---- Transformer ----


def translation_is_incremental(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """f(x, y)[t] = f(x, y[0 … t])[t] with a causal target."""
    f, (x, y) = _transformer(build, draw, s), _both(draw, s)
    steps = [f(x, y[:, :t], tgt_mask=draw.future(t))[:, -1] for t in range(1, s.T + 1)]
    return difference(f(x, y, tgt_mask=draw.future(s.T)), torch.stack(steps, dim=1))


def source_padding_is_invisible(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """Nothing depends on padded positions of the source, if encoder and decoder are told of them."""
    f, (x, y) = _transformer(build, draw, s), _both(draw, s)
    padded = draw.padding(s.B, s.S, s.padding)
    mask = s.blocking(padded, draw)
    options = {"src_key_padding_mask": mask, "memory_key_padding_mask": mask}
    return influence(lambda x, y: f(x, y, **options), (x, y), (padded.unsqueeze(-1), None))


def translations_stay_apart(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """f(x, y)[b] = f(x[b], y[b])."""
    f, (x, y) = _transformer(build, draw, s), _both(draw, s)
    return difference(f(x, y), torch.cat([f(*each) for each in zip(x.split(1), y.split(1), strict=True)]))


def the_order_of_the_source_is_irrelevant(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """f(P x, y) = f(x, y): without positions neither the encoder nor the attention to it knows an order."""
    f, (x, y), p = _transformer(build, draw, s), _both(draw, s), order(s.S, draw)
    return difference(f(x[:, p], y), f(x, y))


ENCODER = named(
    reorders_with_its_input,
    padding_is_invisible,
    the_future_is_invisible,
    samples_stay_apart,
    evaluation_is_deterministic,
)
ENCODER_LAYER = (*ENCODER, *named(residuals_remain))
DECODER = named(
    incremental_decoding_is_full_decoding,
    decoder_future_is_invisible,
    memory_padding_is_invisible,
    the_order_of_memory_is_irrelevant,
    decoder_samples_stay_apart,
)
DECODER_LAYER = (*DECODER, *named(decoder_residuals_remain))
TRANSFORMER = named(
    translation_is_incremental,
    source_padding_is_invisible,
    translations_stay_apart,
    the_order_of_the_source_is_irrelevant,
)
