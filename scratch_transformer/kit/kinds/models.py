"""Whole models from ids to logits: encoder-decoder and decoder-only; encoders and decoders with embeddings inside."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from scratch_transformer.kit.canonical import stacks
from scratch_transformer.kit.canonical.embedding import Positions
from scratch_transformer.kit.kind import Inputs, Kind, Probe, Settings, State
from scratch_transformer.kit.kinds import assembled
from scratch_transformer.kit.kinds.attention import KEYS_ARE_QUERIES
from scratch_transformer.kit.kinds.blocks import (
    CAUSAL_LAYER_MISTAKES,
    CAUSAL_MISTAKES,
    CROSS_MISTAKES,
    ENCODER_MISTAKES,
    FINAL,
    IN_LAYERS,
    LAYER_MISTAKES,
    MEMORY_NORM,
    ROWS,
    SIZES,
    STACK_MISTAKES,
    USUAL,
    builtin_stack,
)
from scratch_transformer.kit.kinds.choices import TRAINED, combined
from scratch_transformer.kit.kinds.inputs import B, Draw, S, T, causal, gap, keys, queries, real
from scratch_transformer.kit.kinds.layers import ORDERS, OUTPUTS, scored
from scratch_transformer.kit.recipe import Recipe

POSITIONS = {
    "sinusoidal positions": {"positions": "sinusoidal"},
    "learned positions": {"positions": "learned"},
    "no positions": {"positions": "none"},
}
HEADS = {"": {"head": True}, "without the projection": {"head": False}}
SCALED = {"": {"embedding_scale": "sqrt(d_model)"}, "embeddings not scaled": {"embedding_scale": "none"}}
NORMALIZED = {"": {"embedding_norm": False}, "normalized embeddings": {"embedding_norm": True}}
MODEL_SIZES = {**SIZES, "num_layers": 2, "max_len": 20}
BOTH_SIDES = (*ROWS, *(id for id in LAYER_MISTAKES if id != KEYS_ARE_QUERIES))
P14 = "P14:cosines where the sines belong, then zeros"
POSITION_MISTAKES = ("E4", "E5", "P2", "P3", "P4:", "P9", "P10", "P12", "P8:cut to integers", P14, "E2", "P5")
OF_SCORES = ("B18", "E6")
"""Of the projection to the words."""
FINAL_NORMS = (
    "B4:post-norm without final norms",
    "B4:pre-norm without final norms",
    "B4:final norms after post-norm",
)


def tokens(draw: Draw, batch: int, length: int, vocab_size: int, pad: int, where: Tensor) -> Tensor:
    """Random ids other than pad, and pad where `where` is False."""
    ids = draw.ids(batch, length, below=vocab_size - 1)
    ids = ids + (ids >= pad)
    return ids.masked_fill(~where, pad)


def seq2seq_probes(settings: Settings, seed: int) -> tuple[Probe, ...]:
    draw, (s, t) = Draw(seed), (settings["src_pad"], settings["tgt_pad"])
    words = min(settings["src_vocab_size"], settings["tgt_vocab_size"])  # of both, for what swaps them
    probes = []
    gap = (torch.arange(T) != 2).expand(B, T)  # at the end of the target only later tokens see padding, and none count
    for name, shows, src_real, tgt_real in (
        ("no padding", "ids without padding", torch.ones(B, S).bool(), torch.ones(B, T).bool()),
        ("padded", "padding in source and target", real(S), real(T)),
        ("gap", "padding inside the target", real(S, "left"), gap),
    ):
        src, tgt = tokens(draw, B, S, words, s, src_real), tokens(draw, B, T, words, t, tgt_real)
        masks = {"src_mask": keys(src_real), "tgt_mask": causal(T) & keys(tgt_real)}
        probes.append(Probe(name, {"src": src, "tgt": tgt, **masks}, queries(tgt_real), shows=shows))
    src, tgt = (tokens(draw, B, T, words, pad, torch.ones(B, T).bool()) for pad in (s, t))
    alike = {
        "src": src.masked_fill(~real(T), s), "tgt": tgt, "src_mask": keys(real(T)), "tgt_mask": causal(T),
    }  # fmt: skip
    free = {**alike, "src": src, "src_mask": keys(real(T) | True)}
    return (
        *probes,
        replace(probes[0], name="quiet", quiet=True, shows="small weights"),
        Probe("alike", alike, shows="source and target of one length"),
        Probe("alike, open", free, shows="source and target of one length, unpadded"),
    )


def gpt_probes(settings: Settings, seed: int) -> tuple[Probe, ...]:
    """None of the ids is 0, which some take for padding and hide."""
    draw, words = Draw(seed), settings["vocab_size"] - 1
    return (
        Probe("ids", {"ids": draw.ids(B, T, below=words) + 1}, shows="random ids"),
        Probe("fewer ids", {"ids": draw.ids(B, 3, below=words) + 1}, shows="fewer ids", quiet=True),
    )


def encoder_probes(settings: Settings, seed: int) -> tuple[Probe, ...]:
    draw, where = Draw(seed), real(S)
    ids = tokens(draw, B, S, settings["vocab_size"], settings["pad"], where)
    other = tokens(draw, B, S, settings["vocab_size"], settings["pad"], where | True)
    return (
        Probe("padded", {"ids": ids, "mask": keys(where)}, queries(where), shows="right padding"),
        Probe("no padding", {"ids": other, "mask": keys(where | True)}, shows="ids without padding", quiet=True),
    )


def decoder_probes(settings: Settings, seed: int) -> tuple[Probe, ...]:
    draw, where = Draw(seed), gap(T)
    ids = tokens(draw, B, T, settings["vocab_size"], settings["pad"], where)
    memory = draw.normal(B, S, settings["d_model"])
    masks = {"mask": causal(T) & keys(where), "memory_mask": keys(real(S))}
    free = {"mask": causal(T), "memory_mask": keys(real(S) | True)}
    other = tokens(draw, B, T, settings["vocab_size"], settings["pad"], where | True)
    return (
        Probe("padded", {"ids": ids, "memory": memory, **masks}, queries(where), shows="padding"),
        Probe("no padding", {"ids": other, "memory": memory, **free}, shows="ids without padding"),
        Probe("quiet", {"ids": other, "memory": memory * 1e-2, **free}, shows="small weights", quiet=True),
        Probe(
            "alike",
            {
                "ids": other,
                "memory": draw.normal(B, T, settings["d_model"]),
                "mask": causal(T),
                "memory_mask": keys(real(T)),
            },
            shows="source and target of one length",
        ),
    )


# ---- torch.nn's stacks with the same weights, inside embeddings and projection that torch.nn does not have ----


def below(state: State, prefix: str) -> State:
    return {name.removeprefix(prefix): values for name, values in state.items() if name.startswith(prefix)}


def embedded(settings: Settings, recipe: Recipe, state: State, ids: Tensor, embed: str, pos: str) -> Tensor:
    x = torch.nn.functional.embedding(ids, state[f"{embed}.weight"])
    x = x * settings["d_model"] ** 0.5 if recipe.embedding_scale == "sqrt(d_model)" else x
    positions = Positions(settings["d_model"], settings["max_len"], recipe).double()
    positions.load_state_dict(below(state, f"{pos}.") if recipe.positions == "learned" else {})
    x = positions(x)
    return assembled.norm(x, recipe, state, f"{embed}_norm") if recipe.embedding_norm else x


def projected(recipe: Recipe, state: State, x: Tensor) -> Tensor:
    return scored(torch.nn.functional.linear(x, state["projection.weight"], state["projection.bias"]), recipe)


def builtin_seq2seq(settings: Settings, recipe: Recipe, state: State, inputs: Inputs) -> Tensor:
    x = embedded(settings, recipe, state, inputs["src"], "src_embed", "src_pos")
    encoder = {"x": x, "mask": inputs["src_mask"]}
    memory = builtin_stack(settings, recipe.within("encoder"), below(state, "encoder."), encoder)
    y = embedded(settings, recipe, state, inputs["tgt"], "tgt_embed", "tgt_pos")
    decoder = {"x": y, "memory": memory, "mask": inputs["tgt_mask"], "memory_mask": inputs["src_mask"]}
    y = builtin_stack(settings, recipe.within("decoder"), below(state, "decoder."), decoder, decoder=True)
    return projected(recipe, state, y) if recipe.head else y


def builtin_gpt(settings: Settings, recipe: Recipe, state: State, inputs: Inputs) -> Tensor:
    x = embedded(settings, recipe, state, inputs["ids"], "embed", "pos")
    x = builtin_stack(settings, recipe, below(state, "stack."), {"x": x})
    return projected(recipe, state, x) if recipe.head else x


def builtin_embedding(settings: Settings, recipe: Recipe, state: State, inputs: Inputs) -> Tensor:
    return embedded(settings, recipe, state, inputs["ids"], "embed", "pos")


def builtin_encoder(settings: Settings, recipe: Recipe, state: State, inputs: Inputs) -> Tensor:
    x = builtin_embedding(settings, recipe, state, inputs)
    return builtin_stack(settings, recipe, below(state, "stack."), {"x": x, "mask": inputs["mask"]})


def builtin_decoder(settings: Settings, recipe: Recipe, state: State, inputs: Inputs) -> Tensor:
    x = embedded(settings, recipe, state, inputs["ids"], "embed", "pos")
    x = builtin_stack(settings, recipe, below(state, "stack."), {**inputs, "x": x}, decoder=True)
    return projected(recipe, state, x) if recipe.head else x


# ---- Kinds ----


def model_kind(name: str, what: str, synonyms: tuple[str, ...], module: Any, **more: Any) -> Kind:
    return Kind(
        name=name,
        what=what,
        synonyms=synonyms,
        build=lambda settings, recipe: module(dict(settings), recipe),
        full={"final_norm": True, "positions": "learned", "embedding_norm": True, **more.pop("more_full", {})},
        **more,
    )


SEQ2SEQ = model_kind(
    "Transformer",
    "The whole model: ids of two languages to a score for every next word.",
    (
        *("transformer", "seq2seq", "seq2seqtransformer", "encoderdecoder", "transformermodel"),
        *("buildtransformer", "makemodel", "translationmodel", "translationtransformer", "nmtmodel"),
    ),
    stacks.Seq2Seq,
    source="Vaswani et al. 2017, section 3",
    inputs=("src", "tgt", "src_mask", "tgt_mask"),
    defaults={**MODEL_SIZES, "src_vocab_size": 13, "tgt_vocab_size": 11, "src_pad": 0, "tgt_pad": 1},
    probes=seq2seq_probes,
    mistakes=(
        "A27:the encoder is given a causal mask too, and no word of the source sees a later one",
        *("B25:", "B25:and looks for each other's padding"),
        "B30:the target's tokens are looked up in the source's embedding, and the target's is unused",
        *BOTH_SIDES, *CAUSAL_MISTAKES, *CROSS_MISTAKES, *FINAL_NORMS, "B9", "B19", "B28", "B20",
        *POSITION_MISTAKES, "P13", *OF_SCORES,
    ),
    designs=combined(HEADS, OUTPUTS, POSITIONS, SCALED, FINAL, ORDERS, USUAL, NORMALIZED),
    more_full=MEMORY_NORM,
    oracle=builtin_seq2seq,
    builtin="torch.nn.Transformer",
)  # fmt: skip
GPT = model_kind(
    "DecoderOnly",
    "A language model: ids to a score for every next id, like GPT.",
    (
        *("gpt", "gpt2", "decoderonly", "languagemodel", "gptlanguagemodel", "transformerlm", "transformermodel"),
        *("gptmodel", "decoderonlytransformer", "lmheadmodel", "lm", "model"),
    ),
    stacks.DecoderOnly,
    source="Radford et al. 2019; the decoder of Vaswani et al. 2017 without the encoder",
    inputs=("ids",),
    defaults={**MODEL_SIZES, "vocab_size": 11},
    probes=gpt_probes,
    mistakes=(*CAUSAL_LAYER_MISTAKES, *CAUSAL_MISTAKES, *STACK_MISTAKES, *POSITION_MISTAKES, *OF_SCORES, "A11:"),
    designs=combined(HEADS, OUTPUTS, POSITIONS, SCALED, FINAL, ORDERS, USUAL, NORMALIZED),
    oracle=builtin_gpt,
    builtin="torch.nn.TransformerEncoder with a causal mask",
)
EMBEDDING_WITH_POSITIONS = model_kind(
    "EmbeddingWithPositions",
    "Looks up a vector for every token, and adds the code of its position.",
    (
        *("transformerembedding", "embeddings", "embeddingwithpositions", "tokenandpositionembedding"),
        *("tokenpositionembedding", "tokenpositionalembedding", "tokenandpositionalembedding", "bertembeddings"),
    ),
    stacks.Embedded,
    source="Vaswani et al. 2017, sections 3.4 and 3.5",
    inputs=("ids",),
    defaults={"vocab_size": 13, "d_model": SIZES["d_model"], "max_len": 20},
    probes=gpt_probes,
    mistakes=(
        *("E1", *POSITION_MISTAKES, "P1", "LN1", "LN2", "LN3", "LN4", "LN6:", "LN8"),
        *(*TRAINED, "B34"),
    ),
    designs=combined(POSITIONS, SCALED, NORMALIZED),
    more_full={"final_norm": False},
    oracle=builtin_embedding,
    builtin="torch.nn.Embedding, with positions",
)
TOKEN_ENCODER = model_kind(
    "TokenEncoder",
    "An encoder with its embeddings: ids to one vector for every token.",
    ("encoder", "transformerencoder"),
    stacks.TokenEncoder,
    source="Vaswani et al. 2017, section 3.1",
    inputs=("ids", "mask"),
    defaults={**MODEL_SIZES, "vocab_size": 13, "pad": 0},
    probes=encoder_probes,
    mistakes=(*ENCODER_MISTAKES, *STACK_MISTAKES, *POSITION_MISTAKES),
    designs=combined(POSITIONS, SCALED, NORMALIZED, FINAL, ORDERS, USUAL),
    oracle=builtin_encoder,
    builtin="torch.nn.TransformerEncoder",
)
TOKEN_DECODER = model_kind(
    "TokenDecoder",
    "A decoder with its embeddings: ids and the encoder's output to a score for every next word.",
    ("decoder", "transformerdecoder"),
    stacks.TokenDecoder,
    source="Vaswani et al. 2017, section 3.1",
    inputs=("ids", "memory", "mask", "memory_mask"),
    defaults={**MODEL_SIZES, "vocab_size": 11, "pad": 1},
    probes=decoder_probes,
    mistakes=(
        *(*BOTH_SIDES, *CAUSAL_MISTAKES, *CROSS_MISTAKES, *STACK_MISTAKES, "B20", *POSITION_MISTAKES, *OF_SCORES),
        IN_LAYERS,
    ),
    designs=combined(HEADS, OUTPUTS, POSITIONS, SCALED, FINAL, ORDERS, USUAL, NORMALIZED),
    more_full=MEMORY_NORM,
    oracle=builtin_decoder,
    builtin="torch.nn.TransformerDecoder",
)
