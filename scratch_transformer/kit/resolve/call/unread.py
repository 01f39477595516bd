"""Masks that a forward takes and nothing reads: it, and all that it hands them to, runs with something that is none."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import CodeType, FrameType
from typing import Any

from torch import Tensor

from scratch_transformer.kit.definitions import parameters_of
from scratch_transformer.kit.judge.frames import parsed
from scratch_transformer.kit.resolve.call.plan import Plan
from scratch_transformer.kit.resolve.names.inputs import is_mask


class Read(Exception):
    """Something was asked of what stands for a mask."""


class Marker:
    """Stands for a mask, and stops whoever reads it. Whether it is None may be asked."""

    def __getattr__(self, name: str) -> Any:
        raise Read(name)

    def __eq__(self, other: object) -> bool:
        if other is None:
            return False
        raise Read("==")

    def __bool__(self) -> bool:
        raise Read("bool")

    __hash__ = None  # type: ignore[assignment]


def masks(function: Callable[..., Any], plan: Plan, run: Callable[[Plan], Tensor]) -> tuple[str, ...]:
    """The parameters for masks that are handed over and change nothing, as nothing reads them.

    run: its output, as it is called by a plan. What is False or True by default is a flag.
    """
    named = [
        p for p in parameters_of(function)
        if is_mask(p.name) and not isinstance(p.default, bool) and p.name not in plan.arguments  # m, the memory
    ]  # fmt: skip
    return tuple(p.name for p in named if _is_unread(p.name, plan, run))


def _is_unread(name: str, plan: Plan, run: Callable[[Plan], Tensor]) -> bool:
    """Whether it runs with a marker, gives what it does without, and had no line left that would read it."""
    told = replace(
        plan,
        masks={n: form for n, form in plan.masks.items() if n != name},
        mask_parameters=tuple(one for one in plan.mask_parameters if one[0] != name),
        constants={**plan.constants, name: (marker := Marker())},
    )
    try:
        with _followed(marker) as places:
            output = run(told)
        return output.equal(run(plan)) and not any(_is_left(code, *place) for code, place in places.items())
    except Exception:  # it was read, or the learner's code stops for another reason
        return False


@contextmanager
def _followed(marker: Marker) -> Iterator[dict[CodeType, tuple[set[str], set[int]]]]:
    """Of the code in which a variable has it, these variables, and the lines that run. Another tracer is put back."""
    places: dict[CodeType, tuple[set[str], set[int]]] = {}
    before = sys.gettrace()

    def trace(frame: FrameType, event: str, arg: Any) -> Callable[..., Any] | None:
        names = {name for name, value in frame.f_locals.items() if value is marker}
        if event == "call" and not names:
            return None
        known, lines = places.setdefault(frame.f_code, (set(), set()))
        known |= names
        lines.add(frame.f_lineno)
        return trace

    sys.settrace(trace)
    try:
        yield places
    finally:
        sys.settrace(before)


def _is_left(code: CodeType, names: set[str], lines: set[int]) -> bool:
    """Whether such a variable is read on a line that did not run; asking whether it is None is no reading."""
    inside = {line for _, _, line in code.co_lines() if line}
    asked = {id(one) for node in parsed(code.co_filename) if _is_question(node) for one in ast.walk(node)}
    read = [n for n in parsed(code.co_filename) if isinstance(n, ast.Name) and n.id in names and id(n) not in asked]
    return any(isinstance(n.ctx, ast.Load) and n.lineno in inside - lines for n in read)


def _is_question(node: ast.AST) -> bool:
    return isinstance(node, ast.Compare) and ast.unparse(node.comparators[0]) == "None"
