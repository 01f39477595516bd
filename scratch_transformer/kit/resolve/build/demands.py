"""Sizes that a constructor demands of each other: assert d_ff == 4 * d_model, assert d_model % num_heads**2 == 0."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any

from scratch_transformer.kit.judge.frames import learners_frame, line_of, nodes_at
from scratch_transformer.kit.resolve.names.settings import settings_of

COMPUTED: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}  # fmt: skip
MOST, TIMES = 1024, 4
"""Of a size; how many times what must divide it without a rest."""


def met(error: BaseException | None, settings: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The settings with which an equation holds that an error says of two sizes, one of which is a parameter's own."""
    if not isinstance(error, (AssertionError, ValueError)):
        return
    if (frame := learners_frame(error)) is None:
        return
    for left, right in _equations(error, frame):
        for name, other in (_divided(left, right), (left, right), (right, left)):
            meant = settings_of(name.id)[:1] if isinstance(name, ast.Name) else ()
            size = _size(other, frame)
            if meant and type(settings.get(meant[0])) is int and size != settings[meant[0]] and 0 < size <= MOST:
                yield {**settings, meant[0]: size}


def _equations(error: BaseException, frame: FrameType) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The sides of assert a == b, or of if a != b: raise ValueError, where an error was raised."""
    line = line_of(error, frame)
    for node in nodes_at(error, frame, (ast.Assert, ast.If)):
        is_raised = isinstance(node, ast.Assert) or any(one.lineno == line for one in node.body)
        sort = ast.Eq if isinstance(node, ast.Assert) else ast.NotEq
        test = node.test
        if is_raised and isinstance(test, ast.Compare) and [*map(type, test.ops)] == [sort]:
            yield test.left, test.comparators[0]


def _divided(left: ast.expr, right: ast.expr) -> tuple[ast.expr, ast.expr]:
    """Of a % b == 0: a, and a multiple of b that it may be; else the same."""
    is_rest = isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mod) and getattr(right, "value", None) == 0
    if not isinstance(left, ast.BinOp) or not is_rest:
        return left, right
    return left.left, ast.BinOp(left.right, ast.Mult(), ast.Constant(TIMES))


def _size(node: ast.expr, frame: FrameType) -> int:
    """A number, a name or a product of such, in a frame; 0 for anything else."""
    if isinstance(node, ast.BinOp) and type(node.op) in COMPUTED:
        left, right = _size(node.left, frame), _size(node.right, frame)
        return COMPUTED[type(node.op)](left, right) if left and right else 0
    value = node.value if isinstance(node, ast.Constant) else None
    value = frame.f_locals.get(node.id) if isinstance(node, ast.Name) else value
    return value if type(value) is int else 0
