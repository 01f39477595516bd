"""Where in the learner's file a frame is, and what is written there."""

from __future__ import annotations

import ast
import functools
import linecache
import sys
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Any

from scratch_transformer.kit.definitions import text_of_file
from scratch_transformer.kit.syntax import Function, is_on, last_name, nodes_in, tree_from

OTHERS = ("torch.", "scratch_transformer.kit")
NOT_OWN = ("site-packages", "scratch_transformer/kit")
"""In the paths of files that are no learner's."""
STOPS_AT = "It stops at: "
DONE_AT = "It does so at: "
"""In the evidence of a mistake, before the line."""


class CalledOtherwise(TypeError):
    """What Python would say of a call that does not fit the forward of the class in whose place the reference is."""


def is_learners(frame: FrameType) -> bool:
    """Whether a frame runs what a learner's file has, and not what is written for it."""
    own = frame.f_globals.get("__file__") == frame.f_code.co_filename
    return own and not f"{frame.f_globals.get('__name__', '')}.".startswith(OTHERS)


def frames_of(error: BaseException | None) -> list[FrameType]:
    """The frames that an error went through, the innermost last."""
    return [frame for frame, _ in traceback.walk_tb(error.__traceback__)] if error is not None else []


def learners_frame(error: BaseException | None) -> FrameType | None:
    """The innermost of those that run what a learner's file has."""
    return next(filter(is_learners, reversed(frames_of(error))), None)


def code_at(path: str, line: int) -> str:
    """The line of a file, without its comment."""
    return linecache.getline(path, line).partition("#")[0].strip()


def said_of(evidence: str) -> str:
    """The line that the evidence of a mistake ends with; "" if with none."""
    return evidence.partition(STOPS_AT)[2] or evidence.partition(DONE_AT)[2]


def line_of(error: BaseException, frame: FrameType) -> int:
    """At which line of a frame an error went through it."""
    lines = [number for one, number in traceback.walk_tb(error.__traceback__) if one is frame]
    return lines[-1] if lines else frame.f_lineno


def nodes_at(error: BaseException, frame: FrameType, sorts: Any) -> Iterator[Any]:
    """The nodes of these sorts on the line at which an error went through a frame."""
    return nodes_on(frame.f_code.co_filename, line_of(error, frame), sorts)


def nodes_on(path: str, line: int, sorts: Any) -> Iterator[Any]:
    """The nodes of these sorts on a line of a file."""
    return (node for node in parsed(path) if isinstance(node, sorts) and is_on(node, line))


def function_of(frame: FrameType) -> Function | None:
    """The definition that a frame is a call of; its first line may be a decorator's."""
    code = frame.f_code
    functions = (one for one in parsed(code.co_filename) if isinstance(one, Function) and one.name == code.co_name)
    return next((one for one in functions if code.co_firstlineno in _first_lines(one)), None)


def _first_lines(function: Function) -> set[int]:
    return {function.lineno, *(one.lineno for one in function.decorator_list)}


def parsed(path: str) -> tuple[ast.AST, ...]:
    """All nodes of a file; none if it cannot be read."""
    return _parsed(text_of_file(path))


@functools.lru_cache(maxsize=16)
def _parsed(text: str) -> tuple[ast.AST, ...]:
    return tuple(nodes_in(tree_from(text), ast.AST))


def line_now() -> str:
    """The line of a learner's that is run right now."""
    frame = _frame_now()
    return code_at(frame.f_code.co_filename, frame.f_lineno) if frame else ""


def line_outside_constructors() -> str:
    """The line of a learner's that is run right now, or that makes the module whose constructor is."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and (not is_learners(frame) or frame.f_code.co_name == "__init__"):
        frame = frame.f_back
    return code_at(frame.f_code.co_filename, frame.f_lineno) if frame else ""


def line_of_argument(name: str) -> str:
    """The line on which the call that a learner's line makes right now has a named argument; else that line."""
    frame = _frame_now()
    calls = nodes_on(frame.f_code.co_filename, frame.f_lineno, ast.Call) if frame is not None else ()
    found = next((word.value.lineno for call in calls for word in call.keywords if word.arg == name), 0)
    if frame is None or not found:
        return line_now()
    return code_at(frame.f_code.co_filename, found)


def values_asked_for() -> int:
    """How many values the call that a learner's line makes right now is taken apart into; 1 if it is not."""
    frame = _frame_now()
    assigned = [*nodes_on(frame.f_code.co_filename, frame.f_lineno, ast.Assign)] if frame is not None else []
    target = assigned[0].targets[0] if assigned and isinstance(assigned[0].value, ast.Call) else None
    return len(target.elts) if isinstance(target, (ast.Tuple, ast.List)) else 1


def is_taken_out_of_now(method: str) -> bool:
    """Whether the learner's line that is run right now takes one of the things that a method gives: encode(text)[0]."""
    frame = _frame_now()
    taken = nodes_on(frame.f_code.co_filename, frame.f_lineno, ast.Subscript) if frame is not None else ()
    calls = (node.value.value if isinstance(node.value, ast.Attribute) else node.value for node in taken)
    return any(isinstance(call, ast.Call) and last_name(call.func) == method for call in calls)


def _frame_now() -> FrameType | None:
    frame: FrameType | None = sys._getframe()
    while frame is not None and not is_learners(frame):
        frame = frame.f_back
    return frame


def learners_places(error: BaseException | None) -> list[traceback.FrameSummary]:
    """Where an error went through files that are neither the kit's nor a library's, the innermost place last."""
    frames = traceback.extract_tb(error.__traceback__) if error is not None else []
    return [frame for frame in frames if not any(part in frame.filename for part in NOT_OWN)]


def in_one_line(error: BaseException | None, most: int = 160) -> str:
    """What an error says, so many characters of it, without the full stop."""
    return " ".join(str(error).split())[:most].rstrip(".")


def learners_place(error: BaseException | None) -> tuple[str, int]:
    """The file and the number of the innermost line of a learner's through which an error went."""
    own = learners_places(error)
    return (own[-1].filename, own[-1].lineno or 0) if own else ("", 0)


def learners_line(error: BaseException | None) -> str:
    """The text of that line."""
    return code_at(*learners_place(error))
