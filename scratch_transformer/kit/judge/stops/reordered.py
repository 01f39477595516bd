"""B26: arguments in another order than a constructor takes them: Residual(width, rate) of __init__(rate, width)."""

from __future__ import annotations

import ast
import contextlib
import itertools
import linecache
import traceback
from types import FrameType
from typing import Any

from scratch_transformer.kit.definitions import is_own, meant_by, parameters_of
from scratch_transformer.kit.judge.frames import STOPS_AT, is_learners, nodes_at
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES

DOES = (
    "Gives a constructor its arguments in another order than it takes them in: each is taken for another, and it stops."
)


def finding(error: BaseException) -> Finding | None:
    """Of a call that stops in a learner's constructor, and would not if each argument went where its name is.

    Its arguments are called like the parameters are, but for the order: that is no choice, as calling forward so is.
    """
    frames = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__) if is_learners(frame)]
    for (frame, line), (inner, _) in reversed([*itertools.pairwise(frames)]):
        for node in nodes_at(error, frame, ast.Call) if inner.f_code.co_name == "__init__" else ():
            thing = meant_by(ast.unparse(node.func), frame.f_globals)
            if not isinstance(thing, type) or vars(thing).get("__init__") is None or not is_own(thing):
                continue
            if vars(thing)["__init__"].__code__ is inner.f_code and (names := _named_otherwise(node, thing, frame)):
                name, (given, taken) = ast.unparse(node.func), names
                said = f"It gives {name} {' and '.join(given)}, where that takes {' and '.join(taken)}, in this order."
                code = linecache.getline(frame.f_code.co_filename, line).strip()
                fix = f"{name}({', '.join(f'{one}={one}' for one in given)}): by name, the order does not matter."
                return Finding(MISTAKES["B26"], f"{said} {STOPS_AT}{code}", name, does=DOES, fix=fix)
    return None


def _named_otherwise(node: ast.Call, thing: Any, frame: FrameType) -> tuple[list[str], list[str]] | None:
    """The arguments that are called like other parameters, and those in whose places they are."""
    taken = [p.name for p in parameters_of(thing) if p.name != "self"][: len(node.args)]
    given = [one.id for one in node.args if isinstance(one, ast.Name)]
    is_one = len(given) == len(node.args) and sorted(given) == sorted(taken) and given != taken
    if not is_one or any(name not in frame.f_locals for name in given) or any(not word.arg for word in node.keywords):
        return None
    with contextlib.suppress(Exception):  # the learner's code may raise anything
        named = {str(word.arg): _value(word.value, frame) for word in node.keywords}
        thing(**{name: frame.f_locals[name] for name in given}, **named)
        moved = [(one, other) for one, other in zip(given, taken, strict=True) if one != other]
        return [one for one, _ in moved], [other for _, other in moved]
    return None


def _value(node: ast.expr, frame: FrameType) -> Any:
    """Of what is given by name: a constant, or a name."""
    return frame.f_locals[node.id] if isinstance(node, ast.Name) else ast.literal_eval(node)
