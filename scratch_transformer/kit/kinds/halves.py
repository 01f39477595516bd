"""What BERT cuts its layers into, and what it puts on top: outputs of sublayers, half a network, heads of sentences."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from scratch_transformer.kit.canonical.halves import Intermediate, SentenceHead, SublayerOutput
from scratch_transformer.kit.kind import Inputs, Kind, Probe, Settings, State
from scratch_transformer.kit.kinds.choices import combined
from scratch_transformer.kit.kinds.inputs import D_FF, D_MODEL, B, Draw, T
from scratch_transformer.kit.kinds.layers import ACTIVATIONS, OUTPUTS, builtin_activation, scored, token_probes
from scratch_transformer.kit.kinds.wrapped import normalized
from scratch_transformer.kit.recipe import Recipe

BERT = "Devlin et al. 2019; the code published with it"
COMMON = ("B10", "B12", "B27", "B32", "B21", "B22", "B26", "B29", "A12")
OF_SUMS = (
    *("B2", "B3:", "B13:norm(f(x))", "B14", "B6"),
    *("LN1", "LN2", "LN3", "LN4", "LN6:", "LN7", "LN9", "LN10:the variance", "LN12:", "LN14:"),
)


def linear(x: Tensor, state: State, name: str) -> Tensor:
    return torch.nn.functional.linear(x, state[f"{name}.weight"], state[f"{name}.bias"])


def sum_probes(width: str) -> Callable[[Settings, int], tuple[Probe, ...]]:
    """width: the setting of how many features a sublayer's output has before it is projected."""

    def probes(settings: Settings, seed: int) -> tuple[Probe, ...]:
        draw = Draw(seed)
        x, residual = draw.normal(B, T, settings[width]), draw.normal(B, T, settings["d_model"]) + draw.normal(B, T, 1)
        inputs = {"x": x, "residual": residual}
        return (
            Probe("tokens", inputs, shows="random tokens"),
            Probe("small", inputs, shows="tokens with a small variance", quiet=True),
        )

    return probes


def builtin_output(settings: Settings, recipe: Recipe, state: State, inputs: Inputs) -> Tensor:
    total = inputs["residual"] + linear(inputs["x"], state, "dense")
    return normalized(total, state)


def output_of(name: str, what: str, width: str, defaults: dict[str, int]) -> Kind:
    return Kind(
        name=name,
        what=what,
        synonyms=(),
        source=BERT,
        inputs=("x", "residual"),
        defaults=defaults,
        build=lambda settings, recipe: SublayerOutput(settings[width], settings["d_model"], recipe),
        probes=sum_probes(width),
        mistakes=(*OF_SUMS, *COMMON),
        oracle=builtin_output,
        builtin="torch.nn.Linear and torch.nn.LayerNorm",
    )


ATTENTION_OUTPUT = output_of(
    "AttentionOutput", "The end of BERT's attention: projects, adds the input, and normalizes.", "d_model",
    {"d_model": D_MODEL},
)  # fmt: skip
NETWORK_OUTPUT = output_of(
    "NetworkOutput", "The end of BERT's feed-forward network: projects, adds the input, and normalizes.", "d_ff",
    {"d_model": D_MODEL, "d_ff": D_FF},
)  # fmt: skip
INTERMEDIATE = Kind(
    name="Intermediate",
    what="The first half of BERT's feed-forward network: a linear map and the activation.",
    synonyms=(),
    source=BERT,
    inputs=("x",),
    defaults={"d_model": D_MODEL, "d_ff": D_FF},
    build=lambda settings, recipe: Intermediate(settings["d_model"], settings["d_ff"], recipe),
    probes=token_probes,
    mistakes=("B8:tanh in place of erf", "B8:sigmoid in place of erf", "B8:tanh", "B8:leaky ReLU", "B16", *COMMON),
    designs=ACTIVATIONS,
    oracle=lambda settings, recipe, state, inputs: builtin_activation(linear(inputs["x"], state, "dense"), recipe),
    builtin="torch.nn.TransformerEncoderLayer's linear1 and activation",
)

POOLED = {
    "of the first token": {"pooled": "first"},
    "of the last token": {"pooled": "last"},
    "of all tokens' mean": {"pooled": "mean"},
}
LAYERED = {
    f"a layer with {name}": {"head_layer": True, "activation": name if name == "tanh" else name.lower()}
    for name in ("tanh", "ReLU", "GELU")
}
INNER = {
    **{f"{name}, no classes": {**entries, "head": False} for name, entries in LAYERED.items()},
    **LAYERED,
    "": {},
}


def builtin_sentence_head(settings: Settings, recipe: Recipe, state: State, inputs: Inputs) -> Tensor:
    x = inputs["x"]
    vector = {"first": x[:, 0], "last": x[:, -1], "mean": x.mean(1)}[recipe.pooled]
    if recipe.head_layer:
        vector = linear(vector, state, "inner")
        vector = torch.tanh(vector) if recipe.activation == "tanh" else builtin_activation(vector, recipe)
    return scored(linear(vector, state, "projection") if recipe.head else vector, recipe)


SENTENCE_HEAD = Kind(
    name="SentenceHead",
    what="Turns the tokens of a sentence into one vector, or into one score for every class.",
    synonyms=(),
    source=BERT,
    inputs=("x",),
    defaults={"d_model": D_MODEL, "vocab_size": 13},
    build=lambda settings, recipe: SentenceHead(settings["d_model"], settings["vocab_size"], recipe),
    probes=token_probes,
    mistakes=COMMON,
    designs=combined(OUTPUTS, POOLED, INNER),
    full={"head_layer": True},
    oracle=builtin_sentence_head,
    builtin="torch.nn.Linear",
)
