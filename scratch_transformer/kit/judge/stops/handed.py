"""B26: a tensor in place of a function, where it is called: residual(x, self.attention(x)), with no lambda."""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Iterator
from types import FrameType

from scratch_transformer.kit.judge.frames import STOPS_AT, line_of, nodes_at
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES

CALLED = re.compile(r"'([\w.]+)' object is not callable")


def finding(error: BaseException, frame: FrameType) -> Finding | None:
    """What calls a function is given a tensor in its place, where it is called: residual(x, self.attention(x))."""
    found = CALLED.search(str(error)) if type(error) is TypeError else None
    called = [node.func for node in nodes_at(error, frame, ast.Call) if isinstance(node.func, ast.Name)]
    for name in (node.id for node in called if found):
        if type(frame.f_locals.get(name)).__name__ != "Tensor":
            continue
        for node, given, caller in handed(name, error, frame):
            is_open = any(isinstance(one, ast.Starred) for one in node.args)
            if not isinstance(given, (ast.Call, ast.BinOp)) or is_open or len(node.args) + len(node.keywords) < 2:
                continue
            first = node.args[0].id if node.args and isinstance(node.args[0], ast.Name) else "x"
            said = f"{ast.unparse(node.func)} is given a tensor for {name}, which it calls: it asks for a function."
            line = linecache.getline(caller.f_code.co_filename, line_of(error, caller)).strip()
            fix = f"Hand a function on, that is called inside: lambda {first}: {ast.unparse(given)}."
            return Finding(MISTAKES["B26"], f"{said} {STOPS_AT}{line}", name, fix=fix)
    return None


def handed(name: str, error: BaseException, frame: FrameType) -> Iterator[tuple[ast.Call, ast.expr | None, FrameType]]:
    """The calls on the line of the learner's that led to a frame, and what a parameter of that is given there."""
    names = frame.f_code.co_varnames[: frame.f_code.co_argcount + frame.f_code.co_kwonlyargcount]
    caller = frame.f_back
    while caller is not None and "torch" in (caller.f_globals.get("__name__") or "").split("."):
        caller = caller.f_back
    if name not in names or caller is None or caller.f_globals.get("__file__") != caller.f_code.co_filename:
        return
    place = names.index(name) - (names[0] == "self")
    for node in nodes_at(error, caller, ast.Call):
        named = {word.arg: word.value for word in node.keywords}
        yield node, named.get(name, node.args[place] if place < len(node.args) else None), caller
