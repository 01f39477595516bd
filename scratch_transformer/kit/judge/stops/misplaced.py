"""B26: a tensor where torch wants a number or Python a yes or no, an array of NumPy's where torch wants a tensor."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from types import FrameType
from typing import Any

import numpy as np
from torch import Tensor, nn

from scratch_transformer.kit.judge.frames import line_of, nodes_at
from scratch_transformer.kit.judge.stops.refused import NOTHING
from scratch_transformer.kit.syntax import is_on

NO_NUMBER = re.compile(r"(\w+)\(\): argument '(dim\w*)' \(position \d+\) must be int, not Tensor")
NO_TENSOR = re.compile(r"expected Tensor as element (\d+) in argument 0, but got numpy\.ndarray")
NO_ANSWER = re.compile(
    r"Boolean value of Tensor with more than one value is ambiguous|size of tensor a \(\d+\) must match"
)
JOINS = ("cat", "stack", "concat")


def is_said(error: BaseException) -> bool:
    """Whether torch says of a tensor or an array that it is none of what it wants."""
    return any(said.match(str(error)) for said in (NO_NUMBER, NO_TENSOR))


def no_axis(error: BaseException, frame: FrameType) -> tuple[str, str]:
    """scores.softmax(scores): what the code has computed itself, as the axis."""
    found = NO_NUMBER.match(str(error)) if type(error) is TypeError else None
    for node in nodes_at(error, frame, ast.Call) if found and _is_of_a_module(frame) else ():
        owner, _, name = ast.unparse(node.func).rpartition(".")
        if name != found[1]:  # type: ignore[index]
            continue
        is_method = isinstance(frame.f_locals.get(owner), Tensor)
        first = [] if is_method else node.args[:1]
        named = [word.value for word in node.keywords if word.arg == found[2]]  # type: ignore[index]
        for given in (*node.args[len(first) :], *named):
            written = ast.unparse(given)
            is_same = written in (owner if is_method else "", *map(ast.unparse, first))
            if _is_numbers(given, frame, 2) and (is_same or not _is_parameter(written, frame)):
                return f"It gives {name} the tensor {written} as {found[2]}, which is a number.", name  # type: ignore[index]
    return NOTHING


def no_array(error: BaseException, frame: FrameType) -> tuple[str, str]:
    """torch.cat((row, table)), where the table was computed with NumPy."""
    found = NO_TENSOR.match(str(error)) if type(error) is TypeError else None
    for node in nodes_at(error, frame, ast.Call) if found and _is_of_a_module(frame) else ():
        given, name = node.args[0] if node.args else None, ast.unparse(node.func)
        if name.rpartition(".")[2] not in JOINS or not isinstance(given, (ast.List, ast.Tuple)):
            continue
        parts = [one for one in given.elts if isinstance(one, ast.Name) and not _is_parameter(one.id, frame)]
        for part in parts:
            if isinstance(frame.f_locals.get(part.id), np.ndarray):
                said = f"It gives {name} {part.id}, an array of NumPy's: torch.from_numpy makes a tensor of it."
                return said, part.id
    return NOTHING


def no_answer(error: BaseException, frame: FrameType) -> tuple[str, str]:
    """assert query == key, if memory: what is asked of two tensors, or of one, has as many answers as numbers."""
    is_one = type(error) is RuntimeError and NO_ANSWER.search(str(error)) is not None and _is_of_a_module(frame)
    for asked in _asked(error, frame) if is_one else ():
        pairs = _compared(asked) if isinstance(asked, ast.Compare) else [(asked,)]
        if any(all(_is_numbers(side, frame, 3) for side in pair) for pair in pairs):
            said = f"It asks whether {ast.unparse(asked)}, and gets an answer for each of a tensor's numbers."
            return said, ast.unparse(asked)
    return NOTHING


def _compared(asked: ast.Compare) -> list[tuple[ast.expr, ...]]:
    """The pairs of a == b < c of which the answers are numbers, as those of is and in are not."""
    sides = [asked.left, *asked.comparators]
    by_numbers = [not isinstance(by, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for by in asked.ops]
    return [*itertools.compress(itertools.pairwise(sides), by_numbers)]


def _asked(error: BaseException, frame: FrameType) -> Iterator[ast.expr]:
    """What must be true or false on the line of an error: conditions, and what not, and and or join."""
    line = line_of(error, frame)
    found: list[Any] = []
    for node in nodes_at(error, frame, (ast.If, ast.While, ast.Assert, ast.IfExp, ast.BoolOp, ast.UnaryOp)):
        if isinstance(node, ast.UnaryOp):
            found += [node.operand] if isinstance(node.op, ast.Not) else []
        else:
            found += node.values if isinstance(node, ast.BoolOp) else [node.test]
    yield from (one for one in found if is_on(one, line))


def _is_of_a_module(frame: FrameType) -> bool:
    """Whether a method of a module runs, which is given tensors: a function may be meant for arrays."""
    owner, file = frame.f_locals.get("self"), frame.f_code.co_filename
    return isinstance(owner, nn.Module) and frame.f_globals.get("__file__") == file


def _is_numbers(node: ast.expr, frame: FrameType, axes: int) -> bool:
    """Whether it is the name of a tensor of floats with at least so many axes, which is no number and no mask."""
    value = frame.f_locals.get(node.id) if isinstance(node, ast.Name) else None
    return isinstance(value, Tensor) and value.is_floating_point() and value.dim() >= axes and value.numel() > 1


def _is_parameter(name: str, frame: FrameType) -> bool:
    code = frame.f_code
    return name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
