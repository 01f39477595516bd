"""Encoder layer, decoder layer, decoder-only block, and their stacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from scratch_transformer.kit.canonical import blocks, stacks
from scratch_transformer.kit.kind import Inputs, Kind, Probe, Settings, State
from scratch_transformer.kit.kinds import assembled
from scratch_transformer.kit.kinds.attention import (
    CORE_OF_OTHERS,
    KEYS_ARE_QUERIES,
    SELF_MISTAKES,
    UNREAD,
    WITH_MASKS,
    packed,
)
from scratch_transformer.kit.kinds.choices import combined
from scratch_transformer.kit.kinds.inputs import (
    D_FF,
    D_MODEL,
    HEADS,
    B,
    Draw,
    S,
    T,
    causal,
    gap,
    keys,
    queries,
    real,
)
from scratch_transformer.kit.kinds.layers import (
    ACTIVATIONS,
    BLOCK_MISTAKES,
    FEED_FORWARD_MISTAKES,
    ORDERS,
    builtin_activation,
)
from scratch_transformer.kit.recipe import Recipe

SIZES = {"d_model": D_MODEL, "num_heads": HEADS, "d_ff": D_FF}
OF_SEVERAL = (
    *("B23:the block's first input is added too", "B13:f(x), without a norm either"),
    "B23:the output of the sublayer before is added, without its residual and norm",
    "B23:the feed-forward network is given the block's first input",
    "B23:the feed-forward network is given the output of the attention, without residual and norm",
    "B30:a sublayer's output is thrown away, and that of the sublayer before is added again",
)
"""Mistakes where sublayers are put together, that one alone does not show."""
THROWN = ("B30:a sublayer's output is thrown away", "B30:what a sublayer's residual and norm made of it is thrown away")
"""Of one layer: a stack in which every sublayer's is, is one whose layers are not used, B19."""
LAYER_MISTAKES = (
    *BLOCK_MISTAKES,
    *FEED_FORWARD_MISTAKES,
    *CORE_OF_OTHERS,
    *(id for id in SELF_MISTAKES if id not in BLOCK_MISTAKES),
    *("B6", "B11", "B15:", "B24", "B34"),
    "B23:the feed-forward network's output is added to the block's first input",
    "B30:the feed-forward network's output is thrown away",
    *OF_SEVERAL,
)
USUAL = {name: ACTIVATIONS[name] for name in ("ReLU", "GELU", "GELU by tanh")}
LAYER_DESIGNS = combined(ORDERS, USUAL)
MEMORY_NORM = {"memory_norm": "own"}
"""A parameter that a decoder's layer may have, and no right design has."""
FINAL = {"": {"final_norm": False}, "final norm": {"final_norm": True}}
STACK_DESIGNS = combined(ORDERS, FINAL, USUAL)
STACK_MISTAKES = ("B4:pre-norm without final norms", "B9", "B19", "B28")
CAUSAL_MISTAKES = ("P7", "K1", "A5", "A6", "A25:", UNREAD)
ENCODER_MISTAKES = tuple(id for id in LAYER_MISTAKES if id != "A29")
"""It is given one mask only."""
CAUSAL_LAYER_MISTAKES = tuple(id for id in LAYER_MISTAKES if id not in WITH_MASKS)
ROWS = ("A7:queries instead of keys, in the target", "A7:queries instead of keys, in the source")
CROSS_MISTAKES = (
    "B15:the first sublayer's for the second too", "B15:the second sublayer's for the third too",
    "B15:the first sublayer's for the third too",
    "A25:nor one for the padding",
    "A21:keys and values come from the decoder", "A21:keys, values and their mask come from the decoder",
    "A21:values come from the decoder", "A22", "A27:", "A27:it stops where their lengths differ", "A35", "A36", "B31",
    "B23:attention's output is added to the encoder's",
    "B23:the output of the attention to the encoder is added to the block's first input",
    "B23:what the attention to the encoder gives, and the network, is added to the block's first input",
    "B23:the feed-forward network's output is added to the input of the sublayer before",
    "B23:the attention to the encoder is given the block's first input",
)  # fmt: skip
IN_LAYERS = "B25:in its layers: the encoder's output is in the place of the target"


# ---- Probes ----


def encoder_probes(settings: Settings, seed: int) -> tuple[Probe, ...]:
    x = Draw(seed).normal(B, S, settings["d_model"])
    left, right = real(S, "left"), real(S)
    return (
        Probe("left padding", {"x": x, "mask": keys(left)}, queries(left), shows="left padding"),
        Probe("right padding", {"x": x, "mask": keys(right)}, queries(right), shows="right padding"),
        Probe("no mask", {"x": x, "mask": None}, shows="no mask"),
        Probe("quiet", {"x": x * 1e-2, "mask": None}, shows="tokens with a small variance", quiet=True),
    )


def decoder_probes(settings: Settings, seed: int) -> tuple[Probe, ...]:
    draw, E = Draw(seed), settings["d_model"]
    x, memory = draw.normal(B, T, E), draw.normal(B, S, E)
    own, other = {"x": x, "memory": memory}, real(S, "left")
    padded = causal(T) & keys(gap(T))
    quiet = {"x": x * 1e-2, "memory": memory * 1e-2, "mask": causal(T), "memory_mask": None}
    alike = {"x": draw.normal(B, S, E), "memory": memory, "mask": causal(S), "memory_mask": keys(real(S))}
    return (
        Probe("padded", {**own, "mask": padded, "memory_mask": keys(other)}, queries(gap(T)), shows="causal, padded"),
        Probe("causal", {**own, "mask": causal(T), "memory_mask": None}, shows="a causal mask and no padding"),
        Probe("source", {**own, "mask": causal(T), "memory_mask": keys(real(S))}, shows="padding in the source"),
        Probe("quiet", quiet, shows="tokens with a small variance", quiet=True),
        Probe("alike", alike, shows="source and target of one length"),
        Probe("alike, open", {**alike, "memory_mask": None}, shows="source and target of one length, unpadded"),
    )


def causal_probes(settings: Settings, seed: int) -> tuple[Probe, ...]:
    x = Draw(seed).normal(B, T, settings["d_model"])
    return (
        Probe("tokens", {"x": x}, shows="random tokens"),
        Probe("fewer", {"x": x[:, :3] * 1e-2}, shows="a shorter sequence with a small variance", quiet=True),
    )


# ---- torch.nn's layers with the same weights ----


def torch_layer(settings: Settings, recipe: Recipe, state: State, prefix: str, decoder: bool) -> nn.Module:
    cls = nn.TransformerDecoderLayer if decoder else nn.TransformerEncoderLayer
    layer = cls(
        settings["d_model"], settings["num_heads"], settings["d_ff"], 0.0, lambda x: builtin_activation(x, recipe),
        batch_first=True, norm_first=recipe.norm_order == "pre", dtype=torch.float64,
    )  # fmt: skip
    layer.load_state_dict(torch_layer_state(state, prefix, decoder))
    return layer.eval()


def torch_layer_state(state: State, prefix: str, decoder: bool) -> State:
    attentions = {"self_attn": "self_attn", "multihead_attn": "cross_attn"} if decoder else {"self_attn": "self_attn"}
    renamed = {
        f"{theirs}.{n}": v for theirs, ours in attentions.items() for n, v in packed(state, f"{prefix}{ours}.").items()
    }
    plain = {"linear1": "feed_forward.linear1", "linear2": "feed_forward.linear2"}
    plain |= {f"norm{n}": f"norm{n}" for n in range(1, 4 if decoder else 3)}
    for theirs, ours in plain.items():
        renamed |= {f"{theirs}.{part}": state[f"{prefix}{ours}.{part}"] for part in ("weight", "bias")}
    return renamed


def run_encoder_layer(layer: nn.Module, x: Tensor, mask: Tensor | None, settings: Settings) -> Tensor:
    if mask is not None:
        mask = ~mask.expand(x.shape[0], settings["num_heads"], x.shape[1], x.shape[1]).flatten(0, 1)
    output: Tensor = layer(x, src_mask=mask)
    return output


def run_decoder_layer(layer: nn.Module, inputs: Inputs, x: Tensor, settings: Settings) -> Tensor:
    h, memory = settings["num_heads"], inputs["memory"]
    mask, memory_mask = inputs.get("mask"), inputs.get("memory_mask")
    if mask is not None:
        mask = ~mask.expand(x.shape[0], h, x.shape[1], x.shape[1]).flatten(0, 1)
    if memory_mask is not None:
        memory_mask = ~memory_mask.expand(x.shape[0], h, x.shape[1], memory.shape[1]).flatten(0, 1)
    output: Tensor = layer(x, memory, tgt_mask=mask, memory_mask=memory_mask)
    return output


def builtin_stack(
    settings: Settings, recipe: Recipe, state: State, inputs: Inputs, prefix: str = "", decoder: bool = False
) -> Tensor:
    """Layers "layers.N." (or the one layer itself) and a final norm."""
    x = inputs["x"]
    mask = inputs["mask"] if "mask" in inputs else causal(x.shape[1])
    is_stack = not settings.get("num_layers", 1) or any(name.startswith(f"{prefix}layers.") for name in state)
    prefixes = [f"{prefix}layers.{i}." for i in range(settings["num_layers"])] if is_stack else [prefix]
    for path in prefixes:
        if not assembled.is_torch_layer(settings, recipe):
            memory = (inputs["memory"], inputs.get("memory_mask")) if decoder else ()
            x = assembled.layer(x, mask, settings, recipe, state, path, *memory)
            continue
        layer = torch_layer(settings, recipe, state, path, decoder)
        x = run_decoder_layer(layer, inputs, x, settings) if decoder else run_encoder_layer(layer, x, mask, settings)
    if is_stack and recipe.final_norm:
        x = assembled.norm(x, recipe, state, f"{prefix}norm")
    return x


def builtin_decoder(settings: Settings, recipe: Recipe, state: State, inputs: Inputs) -> Tensor:
    return builtin_stack(settings, recipe, state, inputs, decoder=True)


# ---- Kinds ----


def block_kind(name: str, what: str, synonyms: tuple[str, ...], module: Callable[..., nn.Module], **more: Any) -> Kind:
    return Kind(
        name=name,
        what=what,
        synonyms=synonyms,
        source="Vaswani et al. 2017, section 3.1",
        build=lambda settings, recipe: module(dict(settings), recipe),
        **more,
    )


ENCODER_LAYER = block_kind(
    "EncoderLayer",
    "Self-attention and feed-forward network, each with a residual connection and a norm.",
    (
        *("encoderlayer", "encoderblock", "encoderunit", "transformerblock", "transformerlayer"),
        *("transformerencoderlayer", "transformerencoderblock", "block"),
    ),
    blocks.EncoderLayer,
    inputs=("x", "mask"),
    defaults=SIZES,
    probes=encoder_probes,
    mistakes=(*ENCODER_MISTAKES, *THROWN),
    designs=LAYER_DESIGNS,
    oracle=builtin_stack,
    builtin="torch.nn.TransformerEncoderLayer",
)
ENCODER = block_kind(
    "Encoder",
    "Encoder layers one after the other.",
    ("encoder", "transformerencoder", "encoderstack"),
    stacks.Encoder,
    inputs=("x", "mask"),
    defaults={**SIZES, "num_layers": 2},
    probes=encoder_probes,
    mistakes=(*ENCODER_MISTAKES, *STACK_MISTAKES),
    designs=STACK_DESIGNS,
    full={"final_norm": True},
    oracle=builtin_stack,
    builtin="torch.nn.TransformerEncoder",
)
DECODER_LAYER = block_kind(
    "DecoderLayer",
    "Self-attention, attention to the encoder's output, and feed-forward network.",
    ("decoderlayer", "decoderblock", "decoderunit", "transformerdecoderlayer", "transformerdecoderblock"),
    blocks.DecoderLayer,
    inputs=("x", "memory", "mask", "memory_mask"),
    defaults=SIZES,
    probes=decoder_probes,
    mistakes=(
        *(id for id in LAYER_MISTAKES if id != KEYS_ARE_QUERIES),
        *CAUSAL_MISTAKES,
        *CROSS_MISTAKES,
        *ROWS,
        *THROWN,
        "B20",
    ),
    designs=LAYER_DESIGNS,
    full=MEMORY_NORM,
    oracle=builtin_decoder,
    builtin="torch.nn.TransformerDecoderLayer",
)
DECODER = block_kind(
    "Decoder",
    "Decoder layers one after the other.",
    ("decoder", "transformerdecoder", "decoderstack"),
    stacks.Decoder,
    inputs=("x", "memory", "mask", "memory_mask"),
    defaults={**SIZES, "num_layers": 2},
    probes=decoder_probes,
    mistakes=(
        *(id for id in LAYER_MISTAKES if id != KEYS_ARE_QUERIES),
        *CAUSAL_MISTAKES,
        *CROSS_MISTAKES,
        *STACK_MISTAKES,
        *ROWS,
        "B20",
        IN_LAYERS,
    ),
    designs=STACK_DESIGNS,
    full={"final_norm": True, **MEMORY_NORM},
    oracle=builtin_decoder,
    builtin="torch.nn.TransformerDecoder",
)
DECODER_ONLY_LAYER = block_kind(
    "DecoderOnlyLayer",
    "Causal self-attention and feed-forward network, as in GPT.",
    ("block", "transformerblock", "gptblock", "decoderblock", "gpt2block", "decoderonlylayer", "causalblock"),
    blocks.DecoderOnlyLayer,
    inputs=("x",),
    defaults=SIZES,
    probes=causal_probes,
    mistakes=(*CAUSAL_LAYER_MISTAKES, *CAUSAL_MISTAKES, *THROWN),
    designs=LAYER_DESIGNS,
    oracle=builtin_stack,
    builtin="torch.nn.TransformerEncoderLayer with a causal mask",
)
