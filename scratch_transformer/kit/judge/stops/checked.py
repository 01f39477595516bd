"""B26: a check of the learner's own that what is right does not pass: assert x.size(1) == self.d_model of (B, T, d)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import FrameType
from typing import Any

from scratch_transformer.kit.judge.frames import frames_of, is_learners, nodes_at


def failed(error: BaseException | None) -> str:
    """What the two sides are of a comparison of sizes that an error was raised for; "" if it is no such error."""
    frames = frames_of(error)
    if error is None or not frames or not is_learners(frames[-1]):
        return ""
    return next(_unequal(error, frames[-1]), "")


def _unequal(error: BaseException, frame: FrameType) -> Iterator[str]:
    """Of each side what is written, and what that is, where equal sizes are asked for and these are not."""
    for test, asked in _tests(error, frame):
        for node in ast.walk(test):
            if not isinstance(node, ast.Compare) or len(node.ops) != 1 or not isinstance(node.ops[0], asked):
                continue
            written = (node.left, node.comparators[0])
            sides = [_size(side, frame) for side in written]
            if None not in sides and sides[0] != sides[1] and all(_is_found(side, frame) for side in written):
                yield " and ".join(f"{ast.unparse(one)} is {value}" for one, value in zip(written, sides, strict=True))


def _tests(error: BaseException, frame: FrameType) -> Iterator[tuple[ast.expr, type[ast.cmpop]]]:
    """What was asked on the line that raised it, or above that, and by which comparison it asks for equal sizes."""
    yield from ((node.test, ast.Eq) for node in nodes_at(error, frame, ast.Assert))
    raised = [*nodes_at(error, frame, ast.Raise)]
    for node in nodes_at(error, frame, ast.If) if raised else ():
        if any(one.lineno == line.lineno for one in node.body for line in raised):
            yield node.test, ast.NotEq


def _is_found(node: ast.expr, frame: FrameType) -> bool:
    """Whether a side is of what the function is given; a number that is written in fits inputs of that size."""
    return any(isinstance(one, ast.Name) and one.id in frame.f_locals for one in ast.walk(node))


def _size(node: ast.expr, frame: FrameType) -> int | tuple[int, ...] | None:
    """What a side of a comparison is, if that is a number or the numbers of a shape."""
    try:
        value: Any = eval(compile(ast.Expression(node), "<a side>", "eval"), frame.f_globals, frame.f_locals)
    except Exception:  # the learner's code may raise anything
        return None
    if isinstance(value, (tuple, list)) and value and all(type(one) is int for one in value):
        return tuple(value)
    return value if type(value) is int else None
