"""Token embeddings and positions."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from scratch_transformer.kit.canonical.embedding import embedding, positions
from scratch_transformer.kit.kind import Inputs, Kind, Probe, Settings, State
from scratch_transformer.kit.kinds.choices import BUILT, RUNS, TRAINED
from scratch_transformer.kit.kinds.inputs import D_MODEL, B, Draw, T
from scratch_transformer.kit.recipe import Recipe

VOCABULARY, MAX_LEN = 13, 40


def id_probes(settings: Settings, seed: int) -> tuple[Probe, ...]:
    ids = Draw(seed).ids(B, T, below=settings["vocab_size"])
    return (Probe("ids", {"ids": ids}, shows="random ids"),)


def position_probes(settings: Settings, seed: int) -> tuple[Probe, ...]:
    draw, d_model = Draw(seed), settings["d_model"]
    longer = min(17, settings["max_len"])
    return (
        Probe("zeros", {"x": torch.zeros(B, T, d_model, dtype=torch.float64)}, shows="zeros as input"),
        Probe("tokens", {"x": draw.normal(B + 1, longer, d_model)}, shows="random tokens"),
    )


def builtin_embedding(settings: Settings, recipe: Recipe, state: State, inputs: Inputs) -> Tensor:
    rows = torch.nn.functional.embedding(inputs["ids"], state["weight"])
    return rows * settings["d_model"] ** 0.5 if recipe.embedding_scale == "sqrt(d_model)" else rows


EMBEDDING = Kind(
    name="InputEmbedding",
    what="Looks up a learned vector for every token, and multiplies it by √d_model.",
    synonyms=(
        *("inputembeddings", "inputembedding", "embeddings", "embedding", "tokenembedding", "wordembedding"),
        *("embed", "embedtokens", "tokenembed"),
    ),
    source="Vaswani et al. 2017, section 3.4",
    inputs=("ids",),
    defaults={"vocab_size": VOCABULARY, "d_model": D_MODEL},
    build=lambda settings, recipe: embedding(dict(settings), recipe),
    probes=id_probes,
    mistakes=("E1", "E2", "E4", "E5", *BUILT, "LN8"),
    oracle=builtin_embedding,
    builtin="torch.nn.Embedding, times √d_model",
)
PLAIN_EMBEDDING = replace(
    EMBEDDING,
    name="Embedding",
    what="Looks up a learned vector for every token.",
    synonyms=("embedding", "myembedding", "customembedding"),
    source="Bengio et al. 2003, section 2",
    mistakes=("E4", "E5", *TRAINED, "B22", "LN8"),
    designs={"": {"embedding_scale": "none"}},
    builtin="torch.nn.Embedding",
)
"""With the names of torch.nn.Embedding, which does not multiply by √d_model."""
POSITIONS = Kind(
    name="PositionalEncoding",
    what="Adds a code of its position to every token.",
    synonyms=(
        *("positionalencoding", "positionalembedding", "positionencoding", "sinusoidalpositionalencoding", "posenc"),
        *("positionalencoder", "sinusoidalpositionalembedding", "positionembedding", "sinusoidalencoding"),
        *("positionencoder", "posencoder", "pe", "sinusoidencodingtable", "sinusoidtable", "sinusoidalpositions"),
        *("positionalencodingtable", "posembed", "positionembed", "positionalembed", "learnedpositionalencoding"),
        *("learnedpositionalembedding", "posembedding", "learnablepositionalencoding", "absolutepositionalembedding"),
    ),
    source="Vaswani et al. 2017, section 3.5",
    inputs=("x",),
    defaults={"d_model": D_MODEL, "max_len": MAX_LEN},
    build=lambda settings, recipe: positions(dict(settings), recipe),
    probes=position_probes,
    mistakes=(
        *("B30:", "P13", "P14", "P1", "P2", "P3", "P4", "P5", "P6", "P8", "P9", "P10", "P11"),
        *("P12:the positions are added twice", "E1", "A12", *RUNS, "B10", "B22", "B26", "LN8"),
    ),
    designs={"sinusoidal": {"positions": "sinusoidal"}, "learned": {"positions": "learned"}},
    full={"positions": "learned"},
)
