"""The attention core, and multi-head attention in its four forms."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor

from scratch_transformer.kit.canonical import attention as canonical
from scratch_transformer.kit.canonical.core import ScaledDotProductAttention
from scratch_transformer.kit.kind import Extra, Inputs, Kind, Probe, Settings, State
from scratch_transformer.kit.kinds import assembled
from scratch_transformer.kit.kinds.choices import BUILT, RUNS
from scratch_transformer.kit.kinds.inputs import D_MODEL, HEADS, B, Draw, S, T, causal, gap, keys, queries, real
from scratch_transformer.kit.kinds.wrapped import WRAPPERS, builtin_wrapped
from scratch_transformer.kit.recipe import Recipe

CROSSED = (
    "A21:query and key are swapped",
    "A21:key and value are swapped",
    "A21:x W in place of x Wᵀ",
)
IN_THE_CORE = (
    "A21:the scores are products of queries and values",
    "A21:the weights are multiplied with the keys",
    "A21:keys and values are swapped after they were projected",
)
"""Where keys and values are of one input, each is as if it were made with the other's projection."""
OF_ANOTHER = tuple(
    f"A21:{made} are made with the projection of the {other}"
    for made, other in itertools.permutations(("queries", "keys", "values"), 2)
)
CORE_MISTAKES = ("A1", "A2", "A37", "A38", "A3", "A4", "A8", "A10", "A11", "A12", "A16", "A18", "A34", "A40")
CORE_OF_OTHERS = (
    *(id for id in CORE_MISTAKES if id not in ("A10", "A11", "A37", "A38")),
    "A37:the scores themselves",
    "A38:",
)
"""Of the core, what shows in the outputs of a layer or a model."""
POST = {name: WRAPPERS[name] for name in ("", "residual and norm inside")}
"""Of a query, a key and a value, a norm before might be of any."""
PRE_ALL = {"norms of queries, keys and values, and residual inside": {"wrapped": "pre all"}}
NORM_INSIDE = ("LN1", "LN2", "LN3")
"""Where residual and norm are inside the attention."""
KEYS_ARE_QUERIES = "A7:queries instead of keys"
HEAD_MISTAKES = (
    *(KEYS_ARE_QUERIES, "A13", "A14", "A15", "A19", *CROSSED, *OF_ANOTHER, "A17", "A23", "A24", "G3", "A28", "A29"),
    *("A30", "A31", "A32", "A35", "P4:attention goes along it", *BUILT, "B30:", "B34", "A39", *NORM_INSIDE),
)
OTHER_RESIDUALS = tuple(f"B23:attention's output is added to the {name}" for name in ("values", "keys"))
UNREAD = "A24:forward takes it, and nothing reads it"
"""Of what hides the future itself, and may be given a mask of padding."""
WITH_MASKS = (KEYS_ARE_QUERIES, "A24", "A29", "A31", "A32")
"""Of what is given masks."""
SELF_MISTAKES = tuple(id for id in HEAD_MISTAKES if id not in CROSSED[:2])
"""Where query, key and value are one, exchanging them changes nothing."""


# ---- The core ----


def core_probes(settings: Settings, seed: int) -> tuple[Probe, ...]:
    draw, shape = Draw(seed), (settings["num_heads"], settings["d_k"])
    h, d_k = shape
    q, k, v = draw.normal(B, h, T, d_k, scale=2), draw.normal(B, h, S, d_k), draw.normal(B, h, S, d_k)
    here = {"query": draw.normal(B, h, T, d_k), "key": draw.normal(B, h, T, d_k), "value": draw.normal(B, h, T, d_k)}
    both = causal(T) & keys(gap(T))
    return (
        Probe("no mask", {"query": q, "key": k, "value": v, "mask": None}, shows="no mask"),
        Probe("left padding", {"query": q, "key": k, "value": v, "mask": keys(real(S, "left"))}, shows="left padding"),
        Probe("causal", {**here, "mask": causal(T)}, shows="a causal mask"),
        Probe("causal, padded", {**here, "mask": both}, queries(gap(T))[:, None], shows="causal mask and padding"),
        Probe("one length", {**here, "mask": None}, shows="as many keys as queries"),
    )


def empty_row(settings: Settings) -> Probe:
    """The first query of the second sample may attend to nothing."""
    inputs = dict(core_probes(settings, 3)[2].inputs)
    mask = causal(T).repeat(B, 1, 1, 1)
    mask[1, :, 2] = False
    return Probe("empty row", {**inputs, "mask": mask}, shows="a query that may attend to nothing")


def huge(settings: Settings) -> Probe:
    """Allowed scores far below -10000."""
    inputs = dict(core_probes(settings, 4)[0].inputs)
    inputs |= {"query": inputs["query"].abs() * 1e5, "key": -inputs["key"].abs(), "mask": keys(real(S))}
    return Probe("huge scores", inputs, shows="scores below -10,000")


def builtin_core(settings: Settings, recipe: Recipe, state: State, inputs: Inputs) -> Tensor:
    mask = inputs["mask"]
    q, k, v = inputs["query"], inputs["key"], inputs["value"]
    is_causal = mask is None and recipe.unmasked == "earlier"
    if mask is None and recipe.unmasked == "before the end":
        mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril(k.shape[-2] - q.shape[-2])
    output: Tensor = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=is_causal)
    return output


SDPA = Kind(
    name="ScaledDotProductAttention",
    what="Weighs the values by how well each query fits each key.",
    synonyms=("scaleddotproductattention", "attention", "scaleddotproduct", "dotproductattention", "sdpa", "attn"),
    source="Vaswani et al. 2017, section 3.2.1, equation 1",
    inputs=("query", "key", "value", "mask"),
    defaults={"num_heads": HEADS, "d_k": 4},
    build=lambda settings, recipe: ScaledDotProductAttention(recipe),
    probes=core_probes,
    designs={
        "": {},
        "causal where no mask is given": {"unmasked": "earlier"},
        "causal where no mask is given, queries are the last tokens": {"unmasked": "before the end"},
    },
    mistakes=(*CORE_MISTAKES, *IN_THE_CORE, "A5", "A6", "A24", "A25:", "A31", "A32", "A35", "B26", *RUNS),
    oracle=builtin_core,
    builtin="torch.nn.functional.scaled_dot_product_attention",
    extras=(Extra(("A11",), empty_row), Extra(("A10",), huge)),
)


# ---- Multi-head attention ----


def multihead_probes(settings: Settings, seed: int) -> tuple[Probe, ...]:
    draw, E = Draw(seed), settings["d_model"]
    q, k, v = draw.normal(B, T, E), draw.normal(B, S, E), draw.normal(B, S, E)
    x, y, z = draw.normal(B, T, E), draw.normal(B, T, E), draw.normal(B, T, E)
    here, valid, other = {"query": x, "key": y, "value": z}, queries(real(T)), queries(gap(T))
    return (
        Probe("self", {"query": x, "key": x, "value": x, "mask": None}, shows="self-attention without a mask"),
        Probe("cross", {"query": q, "key": k, "value": v, "mask": None}, shows="other keys and values than queries"),
        Probe("left padding", {"query": q, "key": k, "value": v, "mask": keys(real(S, "left"))}, shows="left padding"),
        Probe("right padding", {**here, "mask": keys(real(T))}, valid, shows="right padding"),
        Probe("causal", {**here, "mask": causal(T)}, shows="a causal mask"),
        Probe("causal, padded", {**here, "mask": causal(T) & keys(gap(T))}, other, shows="causal mask and padding"),
    )


def self_probes(settings: Settings, seed: int) -> tuple[Probe, ...]:
    draw, E = Draw(seed), settings["d_model"]
    x, valid, left, other = draw.normal(B, T, E), queries(real(T)), real(T, "left"), queries(gap(T))
    return (
        Probe("no mask", {"x": x, "mask": None}, shows="no mask"),
        Probe("left padding", {"x": x, "mask": keys(left)}, queries(left), shows="left padding"),
        Probe("right padding", {"x": x, "mask": keys(real(T))}, valid, shows="right padding"),
        Probe("causal", {"x": x, "mask": causal(T)}, shows="a causal mask"),
        Probe("causal, padded", {"x": x, "mask": causal(T) & keys(gap(T))}, other, shows="causal mask and padding"),
    )


def causal_probes(settings: Settings, seed: int) -> tuple[Probe, ...]:
    draw, E = Draw(seed), settings["d_model"]
    shorter = draw.normal(B, 3, E)
    return (
        Probe("tokens", {"x": draw.normal(B, T, E)}, shows="random tokens"),
        Probe("fewer tokens", {"x": shorter}, shows="a shorter sequence"),
    )


def cross_probes(settings: Settings, seed: int) -> tuple[Probe, ...]:
    draw, E = Draw(seed), settings["d_model"]
    x, memory, short = draw.normal(B, T, E), draw.normal(B, S, E), draw.normal(B, T, E)
    return (
        Probe("no mask", {"x": x, "memory": memory, "mask": None}, shows="no mask"),
        Probe("left padding", {"x": x, "memory": memory, "mask": keys(real(S, "left"))}, shows="left padding"),
        Probe("right padding", {"x": x, "memory": memory, "mask": keys(real(S))}, shows="right padding"),
        Probe("one length", {"x": x, "memory": short, "mask": None}, shows="source and target of one length"),
        Probe("one length, padded", {"x": x, "memory": short, "mask": keys(real(T))}, shows="one length, and padding"),
    )


def empty_query(settings: Settings) -> Probe:
    x = Draw(3).normal(B, T, settings["d_model"])
    mask = causal(T).repeat(B, 1, 1, 1)
    mask[1, :, 2] = False
    inputs = {"query": x, "key": x, "value": x, "mask": mask}
    return Probe("empty row", inputs, shows="a query that may attend to nothing")


def huge_query(settings: Settings) -> Probe:
    """Scores of ± 100000, and two keys only that are allowed: some queries have none above -10000."""
    draw, E = Draw(5), settings["d_model"]
    q, k, v = draw.normal(B, T, E, scale=1e3), draw.normal(B, S, E, scale=1e3), draw.normal(B, S, E)
    inputs = {"query": q, "key": k, "value": v, "mask": keys(torch.arange(S).expand(B, S) < 2)}
    return Probe("huge scores", inputs, shows="scores below -10,000")


def huge_self(settings: Settings) -> Probe:
    x = Draw(5).normal(B, S, settings["d_model"], scale=1e3)
    inputs = {"x": x, "mask": keys(torch.arange(S).expand(B, S) < 2)}
    return Probe("huge scores", inputs, shows="scores below -10,000")


def huge_causal(settings: Settings) -> Probe:
    inputs = {"x": Draw(5).normal(B, S, settings["d_model"], scale=1e3)}
    return Probe("huge scores", inputs, shows="scores below -10,000")


def huge_cross(settings: Settings) -> Probe:
    inputs = huge_query(settings).inputs
    renamed = {"x": inputs["query"], "memory": inputs["key"], "mask": inputs["mask"]}
    return Probe("huge scores", renamed, shows="scores below -10,000")


def empty_self(settings: Settings) -> Probe:
    probe = empty_query(settings)
    return Probe(probe.name, {"x": probe.inputs["query"], "mask": probe.inputs["mask"]}, shows=probe.shows)


def builtin_multihead(settings: Settings, recipe: Recipe, state: State, inputs: Inputs) -> Tensor:
    """The same attention by nn.MultiheadAttention, its three projections packed into one matrix."""
    query: Tensor = inputs["query"] if "query" in inputs else inputs["x"]
    key: Tensor = inputs["key"] if "key" in inputs else inputs.get("memory", query)
    value: Tensor = inputs.get("value", key)
    mask = inputs["mask"] if "mask" in inputs else causal(query.shape[1])
    h = settings["num_heads"]
    if recipe.wrapped == "pre all":
        names = ("query", "key", "value")
        normed = {n: assembled.norm(x, recipe, state, "norm") for n, x in zip(names, (query, key, value), strict=True)}
        inner_recipe = recipe.with_({"wrapped": "none"})
        return query + builtin_multihead(settings, inner_recipe, state, {**normed, "mask": mask})
    if not assembled.is_torch_attention(settings, recipe):

        def parts(y: Tensor) -> Tensor:
            k, v = (y if other is query else other for other in (key, value))
            return assembled.attention(y, k, v, mask, settings, recipe, state)

        return builtin_wrapped(query, parts, recipe, state)
    module = torch.nn.MultiheadAttention(settings["d_model"], h, batch_first=True, dtype=query.dtype).eval()
    module.load_state_dict(packed(state))
    if mask is not None:
        mask = ~mask.expand(query.shape[0], h, query.shape[1], key.shape[1]).flatten(0, 1)

    def inner(y: Tensor) -> Tensor:
        k, v = (y if other is query else other for other in (key, value))
        output: Tensor = module(y, k, v, attn_mask=mask, need_weights=False)[0]
        return output

    return builtin_wrapped(query, inner, recipe, state)


def packed(state: State, prefix: str = "") -> State:
    """w_q, w_k, w_v, w_o as nn.MultiheadAttention keeps them."""
    parts = {kind: [state[f"{prefix}w_{x}.{kind}"] for x in "qkv"] for kind in ("weight", "bias")}
    return {
        "in_proj_weight": torch.cat(parts["weight"]),
        "in_proj_bias": torch.cat(parts["bias"]),
        "out_proj.weight": state[f"{prefix}w_o.weight"],
        "out_proj.bias": state[f"{prefix}w_o.bias"],
    }


def attention_kind(name: str, what: str, synonyms: tuple[str, ...], inputs: tuple[str, ...], **more: Any) -> Kind:
    return Kind(
        name=name,
        what=what,
        synonyms=synonyms,
        source="Vaswani et al. 2017, section 3.2.2",
        inputs=inputs,
        defaults={"d_model": D_MODEL, "num_heads": HEADS},
        designs=WRAPPERS if inputs[0] == "x" else POST | PRE_ALL,
        full={"wrapped": "post"},
        oracle=builtin_multihead,
        builtin="torch.nn.MultiheadAttention",
        **more,
    )


MULTIHEAD = attention_kind(
    "MultiheadAttention",
    "Several attentions side by side, each on its own projection of queries, keys and values.",
    (
        *("multiheadattention", "multiheadattentionblock", "multiheadedattention", "mha", "multihead", "attention"),
        *("attn", "head"),
    ),
    ("query", "key", "value", "mask"),
    build=canonical.builder(canonical.Attention),
    probes=multihead_probes,
    mistakes=(*CORE_MISTAKES, *HEAD_MISTAKES, *IN_THE_CORE, *OTHER_RESIDUALS),
    extras=(Extra(("A11",), empty_query), Extra(("A10",), huge_query)),
)
SELF_ATTENTION = attention_kind(
    "SelfAttention",
    "Multi-head attention of a sequence to itself.",
    ("selfattention", "multiheadselfattention", "mhsa", "attention", "attn", "head"),
    ("x", "mask"),
    build=canonical.builder(canonical.SelfAttention),
    probes=self_probes,
    mistakes=(*CORE_MISTAKES, *SELF_MISTAKES, "B11", "K1"),
    extras=(Extra(("A11",), empty_self), Extra(("A10",), huge_self)),
)
CAUSAL_SELF_ATTENTION = attention_kind(
    "CausalSelfAttention",
    "Multi-head attention of every token to itself and to those before it.",
    (
        *("causalselfattention", "maskedselfattention", "maskedmultiheadattention", "causalattention"),
        *("maskedattention", "selfattention", "head"),
    ),
    ("x",),
    build=canonical.builder(canonical.CausalSelfAttention),
    probes=causal_probes,
    mistakes=(
        *(id for id in CORE_MISTAKES if id != "A11"),
        *(id for id in SELF_MISTAKES if id not in WITH_MASKS),
        "A5",
        "A6",
        "A7:",
        "A25:",
        UNREAD,
        "B11",
        "K1",
    ),
    extras=(Extra(("A10",), huge_causal),),
)
CROSS_ATTENTION = attention_kind(
    "CrossAttention",
    "Multi-head attention of the decoder's tokens to the encoder's output.",
    ("crossattention", "encoderdecoderattention", "multiheadcrossattention"),
    ("x", "memory", "mask"),
    build=canonical.builder(canonical.CrossAttention),
    probes=cross_probes,
    mistakes=(
        *(id for id in CORE_MISTAKES if id != "A11"),
        *(id for id in SELF_MISTAKES if id not in (KEYS_ARE_QUERIES, "A29")),
        *("A21:keys and values come from the decoder", "A21:values come from the decoder"),
    ),
    extras=(Extra(("A10",), huge_cross),),
)
