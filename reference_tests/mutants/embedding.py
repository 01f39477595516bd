"""E2, E4, E5 and P1 … P8: mistakes in the embedding and in the encoding of positions."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from reference_tests.mutants.mutant import Mutant, Patch, after_init, around, variant
from scratch_transformer import functional, model, nn
from scratch_transformer.kit.canonical.embedding import sinusoids
from scratch_transformer.kit.recipe import RIGHT

Original = Callable[..., Any]


def unscaled(original: Original, embeddings: model.InputEmbeddings, ids: Tensor) -> Tensor:
    return embeddings.embedding(ids)


def fresh_row(original: Original, embedding: nn.Embedding) -> None:
    nn.init.normal_(embedding.weight)


def with_padding_0(original: Original, embedding: nn.Embedding, ids: Tensor) -> Tensor:
    return functional.embedding(ids, embedding.weight, 0, embedding.scale_grad_by_freq)


# ---- Positions ----


def positions(changes: Mapping[str, Any]) -> tuple[Patch, ...]:
    """functional.sinusoidal_positions as the kit computes them by recipe. changes: of the right recipe."""

    def table(length: int, d_model: int, device: Any = None, dtype: torch.dtype | None = None) -> Tensor:
        return sinusoids(length, d_model, RIGHT.with_(changes)).to(dtype or torch.get_default_dtype())

    return (Patch(functional, "sinusoidal_positions", table),)


right_positions = functional.sinusoidal_positions


def even_only(length: int, d_model: int, device: Any = None, dtype: torch.dtype | None = None) -> Tensor:
    right = right_positions(length, d_model + d_model % 2, dtype=torch.float64)
    table = torch.zeros(length, d_model, dtype=torch.float64)
    table[:, 0::2] = right[:, 0::2]
    table[:, 1::2] = right[:, 1::2]
    return table.to(dtype or torch.get_default_dtype())


def along_the_batch(original: Original, encoding: model.PositionalEncoding, x: Tensor) -> Tensor:
    return encoding.dropout(x + encoding.pe[0, : x.shape[0]].unsqueeze(1))


def not_a_buffer(encoding: model.PositionalEncoding) -> None:
    pe = encoding.pe
    del encoding.pe
    encoding.pe = pe


def unchecked(original: Original, encoding: model.PositionalEncoding, x: Tensor) -> Tensor:
    return encoding.dropout(x + encoding.pe[..., : x.shape[1], :])


EMBEDDING = (
    Mutant(
        "E2",
        "The embedding is not multiplied by √d_model.",
        "InputEmbeddings",
        (around(model.InputEmbeddings, "forward", unscaled),),
        caught_by=("definition",),
    ),
    Mutant(
        "E4",
        "The initialisation draws the row of the padding too, which must be zero.",
        "Embedding",
        (around(nn.Embedding, "reset_parameters", fresh_row),),
        caught_by=("state", "padding row is frozen"),
    ),
    Mutant(
        "E5",
        "Row 0 gets no gradient, whatever padding_idx is.",
        "Embedding",
        (around(nn.Embedding, "forward", with_padding_0),),
        caught_by=("definition", "padding row is frozen", "is linear in the table"),
    ),
    Mutant(
        "P1",
        "As many cosines as sines, although an odd d_model has one less.",
        "sinusoidal_positions",
        (Patch(functional, "sinusoidal_positions", even_only),),
        caught_by=("definition",),
        crashes=True,
    ),
    Mutant(
        "P2-doubled",
        "10000^(2 · 2i/d_model) instead of 10000^(2i/d_model).",
        "sinusoidal_positions",
        positions(variant("P2", "the exponent is doubled")),
        caught_by=("definition",),
    ),
    Mutant(
        "P2-shifted",
        "cos(pos / 10000^((2i+1)/d_model)): the cosine must have the frequency of the sine before it.",
        "sinusoidal_positions",
        positions(variant("P2", "the cosine has the next exponent")),
        caught_by=("definition",),
    ),
    Mutant(
        "P3",
        "All sines, then all cosines, instead of sin, cos, sin, cos, …: another order of the columns.",
        "sinusoidal_positions",
        positions(variant("P3", "all sines, then all cosines")),
        caught_by=("definition",),
    ),
    Mutant(
        "P4",
        "Sample b gets the code of position b at every position.",
        "PositionalEncoding",
        (around(model.PositionalEncoding, "forward", along_the_batch),),
        caught_by=("definition",),
    ),
    Mutant(
        "P5",
        "The table is a plain attribute: .to() does not move it, the state_dict does not have it.",
        "PositionalEncoding",
        (after_init(model.PositionalEncoding, not_a_buffer),),
        caught_by=("state", "definition"),
    ),
    Mutant(
        "P6",
        "A sequence longer than the table fails in an addition of shapes, without saying what is too long.",
        "PositionalEncoding",
        (around(model.PositionalEncoding, "forward", unchecked),),
        caught_by=("errors",),
    ),
    Mutant(
        "P8",
        "bfloat16 counts to 256 only: later positions are rounded to their neighbours.",
        "sinusoidal_positions",
        positions(variant("P8", "counted in bfloat16")),
        caught_by=("definition",),
    ),
)
