"""B26: positions that are written out, torch.LongTensor([[1, 2, 3, 4, 0]]), beside a sequence of any other length."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from types import FrameType
from typing import Any, NamedTuple

from torch import nn

from scratch_transformer.kit.definitions import file_of
from scratch_transformer.kit.judge.frames import STOPS_AT, code_at, nodes_at, parsed
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.syntax import is_of_self, last_name, method_of, nodes_in

NOTHING = ("", "")
SIZES = re.compile(
    r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\) at non-singleton dimension [01]\b"
)
MAKERS = ("LongTensor", "IntTensor", "tensor", "as_tensor")
POSITIONS = re.compile(r"(?i)pos|^pe$|place")
"""What positions, and what looks them up, are called."""


class Written(NamedTuple):
    """A call that makes the positions, and the forward that it is in."""

    call: ast.Call
    function: ast.FunctionDef
    finding: Finding


def no_length(error: BaseException, frame: FrameType) -> tuple[str, str]:
    """What such positions cannot be added to."""
    found = SIZES.search(str(error)) if type(error) is RuntimeError else None
    for node in nodes_at(error, frame, ast.Call) if found else ():
        if len(numbers := _numbers(node)) > 1 and str(len(numbers)) in found.groups():  # type: ignore[union-attr]
            return _said(node, numbers), ast.unparse(node)
    return NOTHING


def in_forward_of(thing: Any) -> Written | None:
    """The first positions that the forward of a class has written out, and looks up in a part of its own, if any.

    With as many tokens as that they stop nothing.
    """
    if not isinstance(thing, type) or not issubclass(thing, nn.Module):
        return None
    file = file_of(thing)
    classes = (node for node in parsed(file) if isinstance(node, ast.ClassDef) and node.name == thing.__name__)
    for function in filter(None, (method_of(cls, "forward") for cls in classes)):
        for call in _looked_up(function):
            if set(numbers := _numbers(call)) <= {*range(len(numbers) + 1)} and len({*numbers}) == len(numbers) > 1:
                evidence = f"{_said(call, numbers)} {STOPS_AT}{code_at(file, call.lineno)}"
                return Written(call, function, Finding(MISTAKES["B26"], evidence, ast.unparse(call)))
    return None


def _looked_up(function: ast.FunctionDef) -> Iterator[ast.Call]:
    """self.pos_emb(torch.LongTensor([[0, 1, 2]])), or positions = torch.LongTensor([[0, 1, 2]])."""
    for call in nodes_in(function, ast.Call):
        if is_of_self(call.func) and len(call.args) == 1 and isinstance(call.args[0], ast.Call):
            yield call.args[0]
    for line in nodes_in(function, ast.Assign):
        if isinstance(line.value, ast.Call) and POSITIONS.search(last_name(line.targets[0])):
            yield line.value


def _numbers(call: ast.Call) -> list[int]:
    """Of what a call makes a tensor of: those of a list, or of the only list in one; [] of anything else."""
    node = call.args[0] if len(call.args) == 1 and last_name(call.func) in MAKERS else None
    while isinstance(node, (ast.List, ast.Tuple)) and len(node.elts) == 1:
        node = node.elts[0]
    found = [getattr(one, "value", None) for one in node.elts] if isinstance(node, (ast.List, ast.Tuple)) else []
    numbers = [value for value in found if type(value) is int]
    return numbers if len(numbers) == len(found) else []


def _said(call: ast.Call, numbers: list[int]) -> str:
    """0 may be the position of padding."""
    counted = [number for number in numbers if number > 0]
    turns = "" if counted == sorted(counted) else " Nor do they count up: the model is told another order of its words."
    return f"{ast.unparse(call)} is written in: with any number of tokens but {len(numbers)} it stops.{turns}"
