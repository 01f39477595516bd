"""In what order the Hopper kernels do their work, and which program does what: tables, made once for a shape.

A piece of work is a tile of one head, number head · tiles + tile. Causal pieces differ in length, up to a factor of the
number of tiles. Whoever takes them in turn can end up with half as much again as the average; so the longest are dealt
out first, each to the program that has least so far, and all end together. Nothing of it depends on what the GPU
measures: results are the same in every run.
"""

from __future__ import annotations

import functools
import heapq
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor

MANY = 1 << 16
"""Pieces: with more, taking them in turn is balanced enough, and dealing would take Python a while."""
KEPT = 256
"""Tables of each sort. Beyond them are only those that CUDA graphs read, whenever they are replayed."""


def once(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Makes a table once for a shape and a device, the last argument.

    Raises:
        RuntimeError: it is wanted for the first time by a CUDA graph that is being captured.
    """
    tables: dict[Any, Tensor] = {}
    captured: set[Any] = set()

    def add(*shape: Any) -> None:
        device = shape[-1]
        if len(tables) - len(captured) >= KEPT:
            if device.type == "cuda":
                torch.cuda.synchronize(device)  # kernels on any stream may be reading them
            for old in tables.keys() - captured:
                del tables[old]
        # in a thread of its own: torch.compile takes this one's memory for a graph's, and would miss what is kept
        with ThreadPoolExecutor(1) as another:
            tables[shape] = another.submit(make, *shape).result()

    @functools.wraps(make)
    def table(*shape: Any) -> Tensor:
        is_captured = shape[-1].type == "cuda" and torch.cuda.is_current_stream_capturing()
        if shape not in tables:
            if is_captured:
                raise RuntimeError("attention: before a CUDA graph captures it, let a call of the same shapes run once")
            add(*shape)
        if is_captured:
            captured.add(shape)
        return tables[shape]

    return table


@once
def order(tiles: int, heads: int, section: int, longest: str | None, device: torch.device) -> Tensor:
    """The pieces in the order in which they should begin, int32.

    section: so many heads are done before the next, because their keys and values fit into the L2 cache together.
    longest: which tiles of a head are the longest, "first" or "last"; None: all are equal.
    """
    pieces = torch.arange(heads * tiles, dtype=torch.int32).view(heads, tiles)
    if longest is None:
        return pieces.flatten().to(device)
    pieces = pieces.flip(1) if longest == "last" else pieces
    return torch.cat([heads_of_section.T.flatten() for heads_of_section in pieces.split(section)]).to(device)


@once
def dealt(tiles: int, heads: int, section: int, programs: int, is_causal: bool, device: torch.device) -> Tensor:
    """What each program does, int32: a row of a program is the number of its pieces, and the pieces."""
    pieces = order(tiles, heads, section, "last" if is_causal else None, torch.device("cpu"))
    shares = _by_length(pieces.tolist(), tiles, programs) if is_causal and len(pieces) <= MANY else None
    if shares is None:
        shares = [pieces[program::programs].tolist() for program in range(programs)]
    rounds = max(len(share) for share in shares)
    return torch.tensor([[len(share), *share, *[0] * (rounds - len(share))] for share in shares], dtype=torch.int32).to(
        device
    )


def _by_length(pieces: list[int], tiles: int, programs: int) -> list[list[int]]:
    """Each piece to the program that has least to do so far."""
    shares: list[list[int]] = [[] for _ in range(programs)]
    loads = [(0, program) for program in range(programs)]
    for piece in pieces:
        load, program = loads[0]
        shares[program].append(piece)
        heapq.heapreplace(loads, (load + length(piece % tiles), program))
    return shares


def length(tile: int) -> int:
    """Tiles of keys that a tile of queries sees under a causal mask, and one for the beginning and the end."""
    return tile + 2
