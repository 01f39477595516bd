"""B26: a number by which a word is drawn that is None by default, with which it stops: min(top_k, …), without if."""

from __future__ import annotations

import ast
from types import FrameType

from scratch_transformer.kit.judge import callers
from scratch_transformer.kit.judge.frames import STOPS_AT, function_of, in_one_line, learners_line, nodes_at
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.construction import ALWAYS_GIVEN, NEEDS_NUMBER, OF_NO_NUMBER
from scratch_transformer.kit.syntax import Function, settles

CHOOSE = ("argmax", "topk", "sort", "multinomial")
"""What is called where the next word is chosen: elsewhere, what need not be given may be what nobody knows of."""


def finding(error: BaseException, frame: FrameType) -> Finding | None:
    """Of what is never asked whether it is there, and gets no other value."""
    function = function_of(frame)
    if function is None or type(error) is not TypeError or "NoneType" not in str(error) or not _chooses(function):
        return None
    read = {node.id for node in nodes_at(error, frame, ast.Name) if frame.f_locals.get(node.id, error) is None}
    for name in sorted(read & set(_none_by_default(function))):
        if not settles(ast.walk(function), name, ast.BoolOp):
            said = f"{name} is None by default, and with that it stops: {in_one_line(error)}."
            is_left_out = callers.may_leave_out_of(frame.f_code.co_filename, function.name, name)
            form, fix = "" if is_left_out else ALWAYS_GIVEN, OF_NO_NUMBER.format(name)
            evidence = f"{said} {STOPS_AT}{learners_line(error)}"
            return Finding(MISTAKES["B26"], evidence, form, name=name, does=NEEDS_NUMBER, fix=fix)
    return None


def _chooses(function: Function) -> bool:
    called = (node.func for node in ast.walk(function) if isinstance(node, ast.Call))
    return any(getattr(one, "attr", "") in CHOOSE for one in called)


def _none_by_default(function: Function) -> list[str]:
    defaults = callers.defaults_of(function).items()
    return [name for name, value in defaults if isinstance(value, ast.Constant) and value.value is None]
