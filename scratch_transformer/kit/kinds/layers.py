"""Activations, softmax, the feed-forward network, the residual connection, and the projection to the vocabulary."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from scratch_transformer.kit.canonical.activation import Activation, Softmax, feed_forward
from scratch_transformer.kit.canonical.blocks import Residual
from scratch_transformer.kit.canonical.stacks import Head, Projected
from scratch_transformer.kit.kind import Extra, Inputs, Kind, Probe, Settings, State
from scratch_transformer.kit.kinds.choices import BUILT, RUNS, TRAINED, combined
from scratch_transformer.kit.kinds.inputs import D_FF, D_MODEL, HEADS, B, Draw, S, T
from scratch_transformer.kit.kinds.wrapped import OF_NETWORKS, WRAPPERS, builtin_wrapped, normalized
from scratch_transformer.kit.recipe import Recipe

PAPER = "Vaswani et al. 2017"
ORDERS = {"post-norm": {"norm_order": "post"}, "pre-norm": {"norm_order": "pre"}}
OTHER_SUMS = (
    *("B23:the sublayer's output is added to itself", "B23:the input is added twice"),
    "B23:the input is added again after the norm",
    *("B23:the sublayer's output is subtracted", "B23:the input is subtracted"),
    "B30:a sublayer's output is thrown away, and its input is added to itself",
)
BLOCK_MISTAKES = (
    "B15:a sublayer's own, before it and after its sum: norm(x + f(norm(x)))",
    *("B1", "B2", "B3:", "B13:norm(f(x))", "B13:f(norm(x))", "B14", *OTHER_SUMS),
    *("LN1", "LN2", "LN3", "LN4", "LN6:", "LN7", "LN9", "LN10:the variance", "LN12:", "LN14:"),
)
FEED_FORWARD_MISTAKES = (
    *(
        f"B8:{form}"
        for form in ("GELU", "tanh in place of erf", "sigmoid in place of erf", "SiLU", "tanh", "leaky ReLU")
    ),
    *("B16", "B17:at the end instead", "B17:at the end too"),
)


def softmax_probes(settings: Settings, seed: int) -> tuple[Probe, ...]:
    draw = Draw(seed)
    return (Probe("ordinary", {"x": draw.normal(B, HEADS, T, S)}, shows="ordinary scores"),)


def large(settings: Settings) -> Probe:
    # logarithms of 0 alone say nothing
    x = torch.tensor([[[[1000.0, 999.0, 0.0], [0.0, 1.0, 2.0]]]], dtype=torch.float64)
    return Probe("large", {"x": x}, shows="scores of 1000")


def gelu_probes(settings: Settings, seed: int) -> tuple[Probe, ...]:
    x = torch.linspace(-6, 6, B * T * D_MODEL, dtype=torch.float64).reshape(B, T, D_MODEL)
    return (Probe("from -6 to 6", {"x": x}, shows="numbers from -6 to 6"),)


def token_probes(settings: Settings, seed: int) -> tuple[Probe, ...]:
    x = Draw(seed).normal(B, T, settings["d_model"], scale=2)
    return (Probe("tokens", {"x": x}, shows="random tokens"),)


def residual_probes(settings: Settings, seed: int) -> tuple[Probe, ...]:
    """The sublayer is a fixed non-linear function."""
    draw, d_model = Draw(seed), settings["d_model"]
    x, W = draw.normal(B, T, d_model) + draw.normal(B, T, 1), draw.normal(d_model, d_model)

    def sublayer(x: Tensor) -> Tensor:
        return torch.tanh(x @ W.to(x.dtype)) * 2

    tiny = {"x": x * 1e-3, "sublayer": lambda x: sublayer(x) * 1e-3}
    return (
        Probe("tokens", {"x": x, "sublayer": sublayer}, shows="random tokens and a fixed sublayer"),
        Probe("small", tiny, shows="tokens with a small variance", provoking=True),
    )


def builtin_softmax(settings: Settings, recipe: Recipe, state: State, inputs: Inputs) -> Tensor:
    x: Tensor = inputs["x"]
    return torch.log_softmax(x, -1) if recipe.output == "log-probabilities" else torch.softmax(x, -1)


def builtin_gelu(settings: Settings, recipe: Recipe, state: State, inputs: Inputs) -> Tensor:
    approximate = "tanh" if recipe.activation == "gelu tanh" else "none"
    return torch.nn.functional.gelu(inputs["x"], approximate=approximate)


def builtin_feed_forward(settings: Settings, recipe: Recipe, state: State, inputs: Inputs) -> Tensor:
    x: Tensor = inputs["x"]

    def inner(x: Tensor) -> Tensor:
        return builtin_mlp(x, recipe, state)

    return builtin_wrapped(x, inner, recipe, state)


def builtin_mlp(x: Tensor, recipe: Recipe, state: State, prefix: str = "") -> Tensor:
    """linear1, activation and linear2, with a gate or without."""

    def linear(name: str, x: Tensor) -> Tensor:
        weight, bias = state[f"{prefix}{name}.weight"], state[f"{prefix}{name}.bias"]
        return torch.nn.functional.linear(x, weight, bias)

    y = linear("linear1", x)
    return linear("linear2", builtin_activation(linear("gate", x), recipe) * y if recipe.gated else
                  builtin_activation(y, recipe))  # fmt: skip


def builtin_activation(x: Tensor, recipe: Recipe) -> Tensor:
    functional = torch.nn.functional
    if recipe.activation.startswith("gelu"):
        return functional.gelu(x, approximate="tanh" if recipe.activation == "gelu tanh" else "none")
    others: dict[str, Any] = {
        "silu": functional.silu,
        "sigmoid": torch.sigmoid,
        "relu squared": lambda x: functional.relu(x) ** 2,
    }
    output: Tensor = others.get(recipe.activation, functional.relu)(x)
    return output


def builtin_residual(settings: Settings, recipe: Recipe, state: State, inputs: Inputs) -> Tensor:
    x, sublayer = inputs["x"], inputs["sublayer"]
    is_pre = recipe.norm_order == "pre"
    output: Tensor = x + sublayer(normalized(x, state)) if is_pre else normalized(x + sublayer(x), state)
    return output


def builtin_projection(settings: Settings, recipe: Recipe, state: State, inputs: Inputs) -> Tensor:
    x = inputs["x"]
    if recipe.head_layer:
        x = builtin_activation(torch.nn.functional.linear(x, state["inner.weight"], state["inner.bias"]), recipe)
        x = normalized(x, state)
    return scored(torch.nn.functional.linear(x, state["weight"], state["bias"]), recipe)


def scored(logits: Tensor, recipe: Recipe) -> Tensor:
    """What a recipe gives of logits."""
    if recipe.output == "logits":
        return logits
    return torch.log_softmax(logits, -1) if recipe.output == "log-probabilities" else torch.softmax(logits, -1)


SOFTMAX = Kind(
    name="softmax",
    what="Turns scores into positive weights that sum to 1.",
    synonyms=("softmax", "stablesoftmax", "mysoftmax", "softmaxstable"),
    source=f"{PAPER}, section 3.2.1",
    inputs=("x",),
    defaults={"axis": -1},
    build=lambda settings, recipe: Softmax(recipe),
    probes=softmax_probes,
    mistakes=("A2", "A12", "A26", "B33"),
    extras=(Extra(("A26",), large),),
    oracle=builtin_softmax,
    builtin="torch.softmax",
)
LOG_SOFTMAX = replace(
    SOFTMAX,
    name="log_softmax",
    what="The logarithms of the weights that softmax gives.",
    synonyms=("logsoftmax", "stablelogsoftmax", "mylogsoftmax"),
    designs={"": {"output": "log-probabilities"}},
    builtin="torch.log_softmax",
)
ACTIVATIONS = {
    "ReLU": {"activation": "relu"},
    "GELU": {"activation": "gelu"},
    "GELU by tanh": {"activation": "gelu tanh"},
    "SiLU": {"activation": "silu"},
    "ReLU squared": {"activation": "relu squared"},
}
GATED: dict[str, dict[str, Any]] = {
    "SwiGLU": {"gated": True, "activation": "silu"},
    "GEGLU": {"gated": True, "activation": "gelu"},
    "GEGLU by tanh": {"gated": True, "activation": "gelu tanh"},
    "ReGLU": {"gated": True, "activation": "relu"},
    "GLU": {"gated": True, "activation": "sigmoid"},
}
GATED_MISTAKES = ("G1", "G2", "G4", "G5")
SILU = Kind(
    name="SiLU",
    what="x times its sigmoid, a smooth relative of max(0, x).",
    synonyms=("silu", "swish", "sigmoidlinearunit", "mysilu"),
    source="Hendrycks & Gimpel 2016; Ramachandran et al. 2017",
    inputs=("x",),
    defaults={},
    build=lambda settings, recipe: Activation(recipe),
    probes=gelu_probes,
    mistakes=("G6", "B8:GELU", "B8:ReLU in place of GELU", "B8:sigmoid in place of erf", "A12", "B33"),
    designs={"": {"activation": "silu"}},
    oracle=lambda settings, recipe, state, inputs: torch.nn.functional.silu(inputs["x"]),
    builtin="torch.nn.SiLU",
)
GELU = replace(
    SILU,
    name="GELU",
    what="A smooth relative of max(0, x).",
    synonyms=("gelu", "newgelu", "gelunew", "gaussianerrorlinearunit", "fastgelu", "gelutanh", "mygelu"),
    source="Hendrycks & Gimpel 2016",
    mistakes=(
        *("B8:tanh in place of erf", "B8:sigmoid in place of erf", "B8:0.44715 in place of 0.044715"),
        *("B8:ReLU in place of GELU", "A12", "B33"),
    ),
    designs={"exact, with erf": {"activation": "gelu"}, "by tanh": {"activation": "gelu tanh"}},
    oracle=builtin_gelu,
    builtin="torch.nn.GELU",
)


FEED_FORWARD = Kind(
    name="FeedForward",
    what="Two linear maps with an activation between, applied to every token alone.",
    synonyms=(
        *("feedforward", "feedforwardblock", "positionwisefeedforward", "feedforwardnetwork", "mlp", "ffn", "ff"),
        *("positionwisefeedforwardnetwork", "positionwiseffn", "pointwisefeedforward", "transitionlayer"),
        *("siluffn", "geluffn", "reluffn", "gatedmlp", "geglu", "reglu", "glu", "gatedfeedforward", "feedforwardnet"),
    ),
    source=f"{PAPER}, section 3.3, equation 2",
    inputs=("x",),
    defaults={"d_model": D_MODEL, "d_ff": D_FF},
    build=lambda settings, recipe: feed_forward(dict(settings), recipe),
    probes=token_probes,
    mistakes=(
        *(*GATED_MISTAKES, *FEED_FORWARD_MISTAKES, "B7", "B34", *BUILT, "B30:", "A12"),
        *("B17:before the first map instead", "LN7:", "LN1", "LN2", "LN3"),
    ),
    designs={**combined(ACTIVATIONS, WRAPPERS | OF_NETWORKS), **GATED},
    full={"wrapped": "post", "gated": True},
    oracle=builtin_feed_forward,
    builtin="torch.nn.TransformerEncoderLayer's linear1, activation and linear2",
)
SWIGLU = Kind(
    name="SwiGLU",
    what="A feed-forward network in which SiLU of one projection, the gate, multiplies another, as in Llama.",
    synonyms=("swiglu", "swigluffn", "swiglufeedforward", "swiglumlp", "ffnswiglu", "feedforwardswiglu", "llamamlp"),
    source="Shazeer 2020, equation 6",
    inputs=("x",),
    defaults=FEED_FORWARD.defaults,
    build=FEED_FORWARD.build,
    probes=token_probes,
    mistakes=(
        *("G1", "G2", "G4", "G5", "G6", "B8:GELU", "B8:ReLU in place of GELU", "B7", "B34", *TRAINED),
        *("B26", "B29", "A12"),
    ),
    designs={"": GATED["SwiGLU"]},
    full={"gated": True},
    oracle=builtin_feed_forward,
    builtin="torch.nn.functional.linear and silu",
)
LINEAR = Kind(
    name="Linear",
    what="x Wᵀ, and perhaps a bias.",
    synonyms=("linear", "mylinear", "linearlayer", "customlinear", "affine", "dense"),
    source=f"{PAPER}, section 3.3",
    inputs=("x",),
    defaults={"d_model": D_MODEL, "d_out": 17},
    build=lambda settings, recipe: Projected(settings["d_model"], settings["d_out"], recipe),
    probes=token_probes,
    mistakes=(*TRAINED, "A12"),
    oracle=builtin_projection,
    builtin="torch.nn.Linear",
)
RESIDUAL = Kind(
    name="ResidualConnection",
    what="Adds a sublayer's output to its input, and normalizes before or after.",
    synonyms=(
        *("residualconnection", "sublayerconnection", "sublayer", "addnorm", "addandnorm", "residual"),
        "residualblock",
    ),
    source=f"{PAPER}, section 3.1",
    inputs=("x", "sublayer"),
    defaults={"d_model": D_MODEL},
    build=lambda settings, recipe: Residual(settings["d_model"], recipe),
    probes=residual_probes,
    mistakes=(*BLOCK_MISTAKES, "B6", *RUNS, "B21", "B22", "B26", "B24", "A12"),
    designs=ORDERS,
    oracle=builtin_residual,
    builtin="torch.nn.LayerNorm in the order of torch.nn.TransformerEncoderLayer",
)
OUTPUTS = {
    "logits": {"output": "logits"},
    "log-probabilities": {"output": "log-probabilities"},
    "probabilities": {"output": "probabilities"},
}
HEADS_OF: dict[str, dict[str, Any]] = {
    "": {},
    **{f"behind a layer with {name}": {"head_layer": True, **entries} for name, entries in ACTIVATIONS.items()},
}
"""BERT's for masked words has a layer of its own."""
PROJECTION = Kind(
    name="Projection",
    what="Turns the decoder's output into one number for every word of the vocabulary.",
    synonyms=(
        *("projectionlayer", "projection", "generator", "outputprojection", "lmhead", "outputlayer", "unembed"),
        *("linearlayer", "unembedding", "lmpredictionhead", "mlmhead", "languagemodelhead", "languagemodelinghead"),
    ),
    source=f"{PAPER}, section 3.4",
    inputs=("x",),
    defaults={"d_model": D_MODEL, "vocab_size": 13},
    build=lambda settings, recipe: Head(settings["d_model"], settings["vocab_size"], recipe),
    probes=token_probes,
    mistakes=("B18", "E6", *RUNS, "B21", "B22", "B26", "B29", "A12", "LN1", "LN2", "LN3"),
    designs=combined(OUTPUTS, HEADS_OF),
    full={"head_layer": True},
    oracle=builtin_projection,
    builtin="torch.nn.Linear",
)
