"""E2, E4, E5 and P1 … P8: mistakes in the embedding and in the encoding of positions."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from reference_tests.mutants.mutant import Mutant, Patch, after_init, around
from scratch_transformer import functional, model, nn

Original = Callable[..., Any]


def unscaled(original: Original, embeddings: model.InputEmbeddings, ids: Tensor) -> Tensor:
    return embeddings.embedding(ids)


def fresh_row(original: Original, embedding: nn.Embedding) -> None:
    nn.init.normal_(embedding.weight)


def with_padding_0(original: Original, embedding: nn.Embedding, ids: Tensor) -> Tensor:
    return functional.embedding(ids, embedding.weight, 0, embedding.scale_grad_by_freq)


# ---- Positions ----


def angles(length: int, d_model: int, pos: Tensor | None = None, doubled: bool = False) -> Tensor:
    """pos / 10000^(2i/d_model), (length, ceil(d_model / 2))."""
    pos = torch.arange(length, dtype=torch.float64) if pos is None else pos
    two_i = torch.arange(0, d_model, 2, dtype=torch.float64)
    return pos.unsqueeze(1) / 10000 ** ((2 if doubled else 1) * two_i / d_model)


def interleaved(sines: Tensor, cosines: Tensor, d_model: int, dtype: torch.dtype | None) -> Tensor:
    """What is right: sin, cos, sin, cos, …"""
    table = torch.stack([sines, cosines], dim=-1).flatten(1)[:, :d_model]
    return table.to(dtype or torch.get_default_dtype())


def even_only(length: int, d_model: int, device: Any = None, dtype: torch.dtype | None = None) -> Tensor:
    table, a = torch.zeros(length, d_model, dtype=torch.float64), angles(length, d_model)
    table[:, 0::2] = a.sin()
    table[:, 1::2] = a.cos()
    return table.to(dtype or torch.get_default_dtype())


def doubled_exponent(length: int, d_model: int, device: Any = None, dtype: torch.dtype | None = None) -> Tensor:
    a = angles(length, d_model, doubled=True)
    return interleaved(a.sin(), a.cos(), d_model, dtype)


def cosine_at_the_next(length: int, d_model: int, device: Any = None, dtype: torch.dtype | None = None) -> Tensor:
    a = angles(length, d_model)
    return interleaved(a.sin(), (a / 10000 ** (1 / d_model)).cos(), d_model, dtype)


def concatenated(length: int, d_model: int, device: Any = None, dtype: torch.dtype | None = None) -> Tensor:
    a = angles(length, d_model)
    return torch.cat([a.sin(), a.cos()], dim=1)[:, :d_model].to(dtype or torch.get_default_dtype())


def in_bfloat16(length: int, d_model: int, device: Any = None, dtype: torch.dtype | None = None) -> Tensor:
    a = angles(length, d_model, torch.arange(length, dtype=torch.float64).bfloat16().double())
    return interleaved(a.sin(), a.cos(), d_model, dtype)


def along_the_batch(original: Original, encoding: model.PositionalEncoding, x: Tensor) -> Tensor:
    return encoding.dropout(x + encoding.pe[0, : x.shape[0]].unsqueeze(1))


def not_a_buffer(encoding: model.PositionalEncoding) -> None:
    pe = encoding.pe
    del encoding.pe
    encoding.pe = pe


def unchecked(original: Original, encoding: model.PositionalEncoding, x: Tensor) -> Tensor:
    return encoding.dropout(x + encoding.pe[..., : x.shape[1], :])


def positions(table: Callable[..., Tensor]) -> tuple[Patch, ...]:
    return (Patch(functional, "sinusoidal_positions", table),)


EMBEDDING = (
    Mutant(
        "E2",
        "no √d_model",
        "The embedding is not multiplied by √d_model.",
        "InputEmbeddings",
        (around(model.InputEmbeddings, "forward", unscaled),),
        caught_by=("definition",),
    ),
    Mutant(
        "E4",
        "padding row overwritten",
        "The initialisation draws the row of the padding too, which must be zero.",
        "Embedding",
        (around(nn.Embedding, "reset_parameters", fresh_row),),
        caught_by=("state", "padding row is frozen"),
    ),
    Mutant(
        "E5",
        "hard-coded padding_idx",
        "Row 0 gets no gradient, whatever padding_idx is.",
        "Embedding",
        (around(nn.Embedding, "forward", with_padding_0),),
        caught_by=("definition", "padding row is frozen", "is linear in the table"),
    ),
    Mutant(
        "P1",
        "odd width crashes",
        "As many cosines as sines, although an odd d_model has one less.",
        "sinusoidal_positions",
        positions(even_only),
        caught_by=("definition",),
        crashes=True,
    ),
    Mutant(
        "P2-doubled",
        "doubled exponent",
        "10000^(2 · 2i/d_model) instead of 10000^(2i/d_model).",
        "sinusoidal_positions",
        positions(doubled_exponent),
        caught_by=("definition",),
    ),
    Mutant(
        "P2-shifted",
        "another frequency for the cosine",
        "cos(pos / 10000^((2i+1)/d_model)): the cosine must have the frequency of the sine before it.",
        "sinusoidal_positions",
        positions(cosine_at_the_next),
        caught_by=("definition",),
    ),
    Mutant(
        "P3",
        "concatenated, not interleaved",
        "All sines, then all cosines, instead of sin, cos, sin, cos, …: another order of the columns.",
        "sinusoidal_positions",
        positions(concatenated),
        caught_by=("definition",),
    ),
    Mutant(
        "P4",
        "positions along the batch",
        "Sample b gets the code of position b at every position.",
        "PositionalEncoding",
        (around(model.PositionalEncoding, "forward", along_the_batch),),
        caught_by=("definition",),
    ),
    Mutant(
        "P5",
        "not a buffer",
        "The table is a plain attribute: .to() does not move it, the state_dict does not have it.",
        "PositionalEncoding",
        (after_init(model.PositionalEncoding, not_a_buffer),),
        caught_by=("state", "definition"),
    ),
    Mutant(
        "P6",
        "silent length limit",
        "A sequence longer than the table fails in an addition of shapes, without saying what is too long.",
        "PositionalEncoding",
        (around(model.PositionalEncoding, "forward", unchecked),),
        caught_by=("errors",),
    ),
    Mutant(
        "P8",
        "positions in bfloat16",
        "bfloat16 counts to 256 only: later positions are rounded to their neighbours.",
        "sinusoidal_positions",
        positions(in_bfloat16),
        caught_by=("definition",),
    ),
)
