"""B26: a table that is cut along another axis than that of the tokens, or to another length.

mask[:, :T, :T] of one of shape (1, 1, T, T), which has one row there; cache[start : start + T] = k for (B, T, d).
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from types import FrameType

from torch import Tensor, nn

from scratch_transformer.kit.judge.frames import (
    DONE_AT,
    code_at,
    function_of,
    is_learners,
    learners_frame,
    line_of,
    nodes_at,
)
from scratch_transformer.kit.judge.stops.refused import NOTHING
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES

SIZES = re.compile(r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)")
WRITTEN = re.compile(r"expanded size of the tensor .*Target sizes: \[([\d, ]+)\]\. +Tensor sizes: \[([\d, ]+)\]")


def no_fit(error: BaseException, frame: FrameType) -> tuple[str, str]:
    """What is cut where there is one row alone, and stops at a dimension that is left as long as it was.

    With as many tokens as that has it works, and with no fewer.
    """
    sizes = SIZES.search(str(error)) if type(error) is RuntimeError and is_learners(frame) else None
    for node in nodes_at(error, frame, ast.Subscript) if sizes else ():
        table = _table(node.value, frame)
        cut = [*_ends(node, table.dim())] if table is not None else []
        if table is None or not cut:
            continue
        whole = [str(size) for place, size in enumerate(table.shape) if place not in cut and size > 1]
        if any(table.shape[place] == 1 for place in cut) and {*whole} & {*sizes.groups()}:  # type: ignore[union-attr]
            written = ast.unparse(node)
            said = f"{written} of a table of shape {tuple(table.shape)} cuts other dimensions than those of the tokens"
            return f"{said}: with fewer tokens than the table has it stops.", written
    return NOTHING


def too_far(error: BaseException | None) -> Finding | None:
    """What stops with fewer tokens than the longest, as a table is cut to more rows: pe[:, : T + 1], pe[:, : max_len].

    A table that is not cut at all is meant for one length.
    """
    sizes = SIZES.search(str(error)) if type(error) is RuntimeError else None
    frame = learners_frame(error)
    if error is None or sizes is None or frame is None:
        return None
    tokens, rows = sorted(map(int, sizes.groups()))
    for node in _cuts(error, frame):
        table = _table(node.value, frame)
        if table is not None and any(table.shape[place] >= rows for place in _ends(node, table.dim())):
            written = ast.unparse(node)
            line = code_at(frame.f_code.co_filename, node.lineno)
            said = f"With {tokens} tokens {written} has {rows} rows: but for the longest texts it stops."
            return Finding(MISTAKES["B26"], f"{said} {DONE_AT}{line}", written, fix=TO_TOKENS)
    return None


TO_TOKENS = "Cut it to the tokens at hand: self.pe[:, : x.size(1)], self.tril[:T, :T] for B, T, C = x.shape."


def _cuts(error: BaseException, frame: FrameType) -> Iterator[ast.Subscript]:
    """What is cut on the line of an error, or before, for a name that is read on it."""
    here = [*nodes_at(error, frame, (ast.Subscript, ast.Name))]
    names = {node.id for node in here if isinstance(node, ast.Name)}
    yield from (node for node in here if isinstance(node, ast.Subscript))
    function, line = function_of(frame), line_of(error, frame)
    for node in ast.walk(function) if function is not None else ():
        if isinstance(node, ast.Assign) and node.lineno < line and {*map(ast.unparse, node.targets)} & names:
            yield from (part for part in ast.walk(node.value) if isinstance(part, ast.Subscript))


def no_rows(error: BaseException, frame: FrameType) -> tuple[str, str]:
    """What is written into a table along another axis than its own: cache[:, start:end] = k for (B, h, T, d)."""
    sizes = WRITTEN.search(str(error)) if type(error) is RuntimeError and is_learners(frame) else None
    for node in nodes_at(error, frame, ast.Assign) if sizes else ():
        target = node.targets[0]
        table = _table(target.value, frame) if isinstance(target, ast.Subscript) else None
        cut, given = ([int(size) for size in text.split(",")] for text in sizes.groups())  # type: ignore[union-attr]
        fits = _fits_along(list(table.shape), cut, given) if table is not None else []
        if table is not None and len(fits) == 1:
            at, along = fits[0]
            written = ast.unparse(target)
            said = f"{written} = … cuts dimension {at} of {tuple(table.shape)}; what it writes, of {tuple(given)}"
            return f"{said}, fits where dimension {along} is cut.", written
    return NOTHING


def _fits_along(table: list[int], cut: list[int], given: list[int]) -> list[tuple[int, int]]:
    """The axis that is cut, and another that must be cut for that what is given fits; there may be fewer sentences."""
    found = []
    for at, along in itertools.permutations(range(len(table) if len(table) == len(cut) == len(given) else 0), 2):
        moved = [*cut]
        moved[at], moved[along] = table[at], cut[at]
        is_moved = cut[at] < table[at] and cut[along] == table[along] >= given[along] and given[at] != cut[at]
        fits = moved[1:] == given[1:] and (moved[0] == given[0] or (at == 0 and given[0] < moved[0]))
        found += [(at, along)] if is_moved and fits else []
    return found


def _table(node: ast.expr, frame: FrameType) -> Tensor | None:
    """The tensor self.name of a module."""
    owner, written = frame.f_locals.get("self"), ast.unparse(node)
    first, _, name = written.partition(".")
    table = getattr(owner, name, None) if first == "self" and isinstance(owner, nn.Module) else None
    return table if isinstance(table, Tensor) else None


def _ends(node: ast.Subscript, dim: int) -> Iterator[int]:
    """The dimensions of which a part is taken from the beginning, [:, :T]; none where anything else is done."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    slices = [part for part in parts if isinstance(part, ast.Slice) and part.lower is None and part.step is None]
    if len(slices) == len(parts) <= dim:
        yield from (
            place
            for place, part in enumerate(slices)
            if part.upper is not None and not isinstance(part.upper, (ast.Constant, ast.UnaryOp))
        )
