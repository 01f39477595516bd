"""Today's decoders: rotary positions, RMSNorm, gated feed-forward networks, as in Llama, Mistral and Qwen."""

from __future__ import annotations

from typing import Any

from torch import nn

from scratch_transformer.kit.canonical import attention as canonical
from scratch_transformer.kit.canonical import blocks, stacks
from scratch_transformer.kit.kind import Kind
from scratch_transformer.kit.kinds import attention
from scratch_transformer.kit.kinds.blocks import (
    CAUSAL_LAYER_MISTAKES,
    CAUSAL_MISTAKES,
    LAYER_MISTAKES,
    SIZES,
    STACK_MISTAKES,
    THROWN,
    builtin_stack,
    causal_probes,
    encoder_probes,
)
from scratch_transformer.kit.kinds.choices import combined
from scratch_transformer.kit.kinds.layers import ACTIVATIONS, GATED, GATED_MISTAKES, ORDERS
from scratch_transformer.kit.kinds.models import HEADS, NORMALIZED, builtin_gpt, gpt_probes
from scratch_transformer.kit.kinds.rotary import BASE, ROTARY_MISTAKES

TURNED: dict[str, dict[str, Any]] = {
    "rotary positions": {"rotary": "interleaved"},
    "rotary positions, pairs across the halves": {"rotary": "halves"},
}
NORMS: dict[str, dict[str, Any]] = {"RMSNorm": {"norm_kind": "rms"}, "LayerNorm": {"norm_kind": "norm"}}
FEEDS: dict[str, dict[str, Any]] = {
    **GATED,
    **{name: ACTIVATIONS[name] for name in ("SiLU", "GELU", "GELU by tanh", "ReLU", "ReLU squared")},
}
QUERY_NORM: dict[str, dict[str, Any]] = {"": {"qk_norm": False}, "normalized queries and keys": {"qk_norm": True}}
TURNING = (*ROTARY_MISTAKES, "R3", "R4", "R5", "R8", "P7", "K1")
"""Of attention with rotary positions."""
DESIGNS_TODAY = ("LN6", "LN9", "A14", "A15", "B1", "B4", "B7", "E2")
"""What is no mistake, and no news, in a model of today: no biases, no mean, pre-norm, embeddings as they are."""
NO_TURN: dict[str, dict[str, Any]] = {"no rotary positions": {"rotary": "none"}}


def only(mistakes: tuple[str, ...]) -> tuple[str, ...]:
    """Those that are mistakes today; x + norm(f(x)) is none with RMSNorm, and tried so first.

    Embeddings as they are, or times √d_model, are designs; other scales are not.
    """
    known = (id for id in mistakes if id.partition(":")[0] not in (*DESIGNS_TODAY, "B8"))
    more = ("B3:as in OLMo 2, with RMSNorm: a design",) if "B3:" in mistakes else ()
    scales = ("E2:divided by √d_model", "E2:plus √d_model") if "E2" in mistakes else ()
    return tuple(dict.fromkeys((*more, *known, *scales)))


# ---- Attention ----


def attention_kind(name: str, what: str, of: Kind, module: type[canonical.Attention]) -> Kind:
    """A kind of attention with rotary positions, or with normalized queries and keys."""
    query_norm: dict[str, dict[str, Any]] = {
        "": {"qk_norm": False},
        "normalized queries and keys": {"qk_norm": True, "norm_kind": "rms"},
    }
    designs = {**combined(TURNED, query_norm), "normalized queries and keys": query_norm["normalized queries and keys"]}
    return Kind(
        name=name,
        what=what,
        synonyms=(
            *("rotaryattention", "ropeattention", "groupedqueryattention", "gqa", "multiqueryattention", "mqa"),
            *("multiheadselfattentionwithrope", "attentionwithrope", "llamaattention", *of.synonyms),
        ),
        source="Su et al. 2021, section 3.2.2; Touvron et al. 2023, section 2.2",
        inputs=of.inputs,
        defaults={**of.defaults, "rope_base": BASE},
        build=canonical.builder(module),
        probes=of.probes,
        mistakes=only((*TURNING, *(id for id in of.mistakes if not id.startswith("LN")), "LN3")),
        designs=designs,
        full={"qk_norm": True},
        oracle=of.oracle,
        builtin="torch.nn.functional.scaled_dot_product_attention",
        extras=of.extras,
    )


ROTARY_ATTENTION = attention_kind(
    "RotaryAttention",
    "Attention of a sequence to itself, queries and keys turned by their positions.",
    attention.SELF_ATTENTION,
    canonical.SelfAttention,
)
CAUSAL_ROTARY_ATTENTION = attention_kind(
    "CausalRotaryAttention",
    "Attention of every token to itself and to those before it, queries and keys turned by their positions.",
    attention.CAUSAL_SELF_ATTENTION,
    canonical.CausalSelfAttention,
)


# ---- Blocks ----


def block_kind(name: str, what: str, module: type[nn.Module], **more: Any) -> Kind:
    return Kind(
        name=name,
        what=what,
        synonyms=(
            *("llamablock", "llamadecoderlayer", "transformerblock", "block", "decoderblock", "decoderlayer"),
            *("encoderlayer", "encoderblock", "transformerlayer", "layer", "llamalayer"),
        ),
        source="Touvron et al. 2023, section 2.2",
        defaults={**SIZES, "rope_base": BASE},
        build=lambda settings, recipe: module(dict(settings), recipe),
        designs=combined(OF_TWO, {**TURNED, **NO_TURN}, NORMS, FEEDS, QUERY_NORM),
        full={"gated": True, "qk_norm": True},
        oracle=builtin_stack,
        builtin="torch.nn.functional's parts, put together",
        **more,
    )


ORDERS_TODAY = {"pre-norm": ORDERS["pre-norm"], "post-norm": ORDERS["post-norm"]}
OF_TWO: dict[str, dict[str, Any]] = {
    **{name: {**order, "norms": "own"} for name, order in ORDERS_TODAY.items()},
    "attention and network side by side": {"norm_order": "parallel", "norms": "own"},
    "attention and network side by side, behind one norm": {"norm_order": "parallel", "norms": "shared"},
}
"""Of a layer with two sublayers: one after the other, or both at once, as in GPT-NeoX, GPT-J and PaLM."""
LLAMA_BLOCK = block_kind(
    "LlamaBlock",
    "Causal self-attention and a feed-forward network with RMSNorm, rotary positions or a gate, as in Llama.",
    blocks.DecoderOnlyLayer,
    inputs=("x",),
    probes=causal_probes,
    mistakes=only((*TURNING, *GATED_MISTAKES, *CAUSAL_LAYER_MISTAKES, *CAUSAL_MISTAKES, *THROWN)),
)
MASKED_LLAMA_BLOCK = block_kind(
    "MaskedLlamaBlock",
    "The same, with a mask that it is given.",
    blocks.EncoderLayer,
    inputs=("x", "mask"),
    probes=encoder_probes,
    mistakes=only((*TURNING, *GATED_MISTAKES, *LAYER_MISTAKES, *THROWN)),
)


# ---- Models ----


POSITIONS: dict[str, dict[str, Any]] = {
    **{name: {"positions": "none", **changes} for name, changes in {**TURNED, **NO_TURN}.items()},
    "learned positions": {"positions": "learned", "rotary": "none"},
}
FINAL = {"": {"final_norm": True}, "no final norm": {"final_norm": False}}
SCALED = {"": {"embedding_scale": "none"}, "embeddings times √d_model": {"embedding_scale": "sqrt(d_model)"}}

LLAMA = Kind(
    name="LlamaModel",
    what="A language model of today: ids to a score for every next id, with rotary positions, RMSNorm or a gate.",
    synonyms=(
        *("llama", "transformerlm", "transformer", "languagemodel", "gpt", "llamamodel", "llamaforcausallm", "llm"),
        *("decoderonlytransformer", "transformerlanguagemodel", "llama2", "llama3", "model", "causallm", "decoder"),
        *("minillama", "tinyllama", "transformermodel"),
    ),
    source="Touvron et al. 2023, section 2.2",
    inputs=("ids",),
    defaults={**SIZES, "num_layers": 2, "max_len": 20, "vocab_size": 11, "rope_base": BASE},
    build=lambda settings, recipe: stacks.DecoderOnly(dict(settings), recipe),
    probes=gpt_probes,
    mistakes=only((*TURNING, *GATED_MISTAKES, *CAUSAL_LAYER_MISTAKES, *CAUSAL_MISTAKES, *STACK_MISTAKES, "B18", "E2")),
    designs=combined(HEADS, FINAL, POSITIONS, SCALED, NORMALIZED, OF_TWO, NORMS, FEEDS, QUERY_NORM),
    full={"gated": True, "qk_norm": True, "final_norm": True, "positions": "learned", "embedding_norm": True},
    oracle=builtin_gpt,
    builtin="torch.nn.functional's parts, put together",
)
