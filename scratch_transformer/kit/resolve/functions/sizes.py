"""Functions of sizes: positional_encoding(seq_len, d_model), whichever of the two comes first."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from scratch_transformer.kit.arrays.turning import to_tensors
from scratch_transformer.kit.kind import Kind
from scratch_transformer.kit.resolve.build.construct import parameters_of
from scratch_transformer.kit.resolve.build.reading import uses_of
from scratch_transformer.kit.resolve.call.precision import double
from scratch_transformer.kit.resolve.candidate import tensors
from scratch_transformer.kit.resolve.names.inputs import input_of
from scratch_transformer.kit.resolve.names.settings import settings_of
from scratch_transformer.kit.resolve.names.words import plain

LENGTHS = (
    *("position", "positions", "pos", "maxposition", "timesteps", "seq", "sequence", "tokens", "ntokens", "rows"),
    *("numembeddings", "nembeddings"),
)
WIDTHS = ("depth", "dmodel", "outputdim", "channels")
BASES = ("n", "base", "theta", "constant", "freq", "maxwavelength", "maxperiod", "period")
OF_TENSORS = {"shape", "size", "device", "dtype", "to", "ndim"}
WIDTH, LENGTH = "d_model", "max_len"
ONE_COLUMN = "Told {} positions and {} features, it makes a table of shape {}: one code for all features of a token."


def of_sizes(function: Callable[..., Any], kind: Kind) -> list[Callable[..., Any]]:
    """Readings of a function of sizes as one of x, the likeliest first; [] if it is none, or of another kind."""
    if kind.name != "PositionalEncoding" or not inspect.isfunction(function):
        return []
    parameters = [p for p in parameters_of(function) if plain(p.name) not in (*BASES, "device", "dtype")]
    required = [p.name for p in parameters if p.default is p.empty]
    sizes = required if len(required) >= 2 else [p.name for p in parameters if p.default is None or p.name in required]
    sizes += [p.name for p in parameters if isinstance(p.default, int) and len(sizes) < 2 and p.name not in sizes]
    uses = uses_of(function)
    are_read = any(name in uses and uses[name].attributes & OF_TENSORS for name in sizes)
    if len(sizes) != 2 or are_read or any(input_of(name, ("x",)) for name in sizes):
        return []
    orders = sorted(itertools.permutations((LENGTH, WIDTH)), key=lambda order: -_fitness(sizes, order))
    return [_of_tokens(function, dict(zip(order, sizes, strict=True))) for order in orders]


def _fitness(names: list[str], order: tuple[str, ...]) -> int:
    """How many of the names may mean what the order says."""
    return sum(meant in _meanings(name) for name, meant in zip(names, order, strict=True))


def _meanings(name: str) -> Iterator[str]:
    word = plain(name)
    if word in WIDTHS:
        yield WIDTH
    elif word in LENGTHS:
        yield LENGTH
    else:
        yield from settings_of(name)


def _of_tokens(function: Callable[..., Any], sizes: dict[str, str]) -> Callable[..., Any]:
    """x (B, T, d_model) -> the codes of T positions, (1, T, d_model)."""
    constants = {
        p.name: 10000.0 if plain(p.name) in BASES else "cpu" if plain(p.name) == "device" else torch.float64
        for p in parameters_of(function)
        if p.default is p.empty and p.name not in sizes.values()
    }

    def positions(x: Tensor) -> Tensor:
        length, width = x.shape[1], x.shape[2]
        output = function(**{sizes[LENGTH]: length, sizes[WIDTH]: width}, **constants)
        table = next(tensors(to_tensors(output)), None)
        if table is None:
            raise TypeError(f"it returns {type(output).__name__}, no tensor")
        table = table.squeeze(0) if table.dim() == 3 and table.shape[0] == 1 else table
        table = table.squeeze(1) if table.dim() == 3 else table
        if table.shape == (length, 1) and width > 1:  # as if it were added to tokens: the same to each feature
            positions.said = ONE_COLUMN.format(length, width, tuple(table.shape))  # type: ignore[attr-defined]
            table = table.expand(-1, width)
        if table.shape[-1] != width or table.shape[0] < length:
            raise ValueError(f"its table is of shape {tuple(table.shape)}")
        return table[None, :length]

    positions.is_of_sizes = True  # type: ignore[attr-defined]
    return positions


def is_table(function: Any, kind: Kind) -> bool:
    """Whether a function makes a table of positions, as its parameters say: how many there are, and how wide."""
    sizes = [p.name for p in parameters_of(function) if p.default is p.empty]
    if len(sizes) != 2 or not of_sizes(function, kind):
        return False
    return any(_fitness(sizes, order) == 2 for order in itertools.permutations((LENGTH, WIDTH)))


def widened(made: Any, width: int) -> bool:
    """Calls a function of sizes with another width; whatever it raises is passed on. False for what is no such."""
    if not getattr(made, "is_of_sizes", False):
        return False
    with double():
        made(torch.zeros(1, 4, width))
    return True
