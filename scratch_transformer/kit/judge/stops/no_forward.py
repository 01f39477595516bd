"""B26: a class of modules whose forward Python does not find: within __init__, behind the class, by a misspelt name."""

from __future__ import annotations

import ast
import difflib
import inspect
import linecache
import re
from collections.abc import Iterator, Sequence
from typing import Any

from torch import nn

from scratch_transformer.kit.definitions import file_of, is_of_torch, lines_of, namespace_of, text_of_file, tree_of
from scratch_transformer.kit.judge.frames import STOPS_AT, parsed
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.construction import OF_FORWARD
from scratch_transformer.kit.syntax import Function, nodes_in

FORWARD = "forward"
CALLED = {FORWARD, "__call__", "encode", "decode"}
"""What something has that can be called, or that others call."""
SET_LATER = re.compile(r"\.forward\s*=(?!=)|[\"']forward[\"']")
LIKE = 0.85
"""Share of equal letters from which a name is forward misspelt: foward, forwad, Forward; backward is none."""


def finding(thing: Any) -> tuple[Finding, BaseException] | None:
    """B26, with what torch says where it is called; None for what has a forward, or does without."""
    said, line = lost(thing) if isinstance(thing, type) else ("", "")
    if not said:
        return None
    error = NotImplementedError(f'Module [{thing.__name__}] is missing the required "forward" function')
    return Finding(MISTAKES["B26"], f"{said} {STOPS_AT}{line}", fix=OF_FORWARD), error


def breaks_off(cls: type) -> bool:
    """Whether a class ends behind a constructor that makes something, and its file does."""
    own = [node for node in getattr(tree_of(cls), "body", []) if isinstance(node, Function)]
    stores = any(isinstance(node.ctx, ast.Store) for node in nodes_in(own, ast.Attribute))
    if [one.name for one in own] != ["__init__"] or not stores:
        return False
    behind = text_of_file(file_of(cls)).splitlines()[lines_of(cls)[1] :]
    is_last = not any(re.match(r"[\w@]", line) for line in behind)
    return is_last and not _is_a_base(cls) and not re.search("base|abstract", cls.__name__, re.IGNORECASE)


def lost(cls: type) -> tuple[str, str]:
    """Where the forward of a class is that has none, in a sentence, and the line of its head; "" if nowhere."""
    owners = [one for one in cls.__mro__ if not is_of_torch(one) and one is not object]
    if not issubclass(cls, nn.Module) or any(CALLED & vars(one).keys() for one in owners) or _is_a_base(cls):
        return "", ""
    path = inspect.getsourcefile(cls) if file_of(cls) else None
    for said, head in _candidates(cls, path) if path else ():
        return f"{cls.__name__} has no forward, and stops where it is called: {said}.", head
    return "", ""


def _candidates(cls: type, path: str | None) -> Iterator[tuple[str, str]]:
    lines = linecache.getlines(path or "")
    written = [node for node in parsed(path or "") if isinstance(node, ast.ClassDef) and node.name == cls.__name__]
    for node in written[-1:] if not SET_LATER.search("".join(lines)) else ():
        methods = [one for one in node.body if isinstance(one, Function)]
        for method in methods:
            for inner in _heads(list(ast.walk(method))[1:]):
                if not _reads(method, FORWARD):
                    yield f"its forward is within {method.name}, one level too deep", _head(lines, inner)
        for method in methods:
            if is_misspelt(method.name) and not re.search(rf"\.{method.name}\b", _without(lines, method)):
                yield f"what is to be its forward is called {method.name}", _head(lines, method)
        for inner in _heads(_behind(node, path or "")):
            yield "its forward is behind the class, not in it", _head(lines, inner)


def _heads(nodes: Sequence[ast.AST]) -> list[ast.FunctionDef]:
    """The functions among some nodes that are called forward, and are given self."""
    named = [node for node in nodes if isinstance(node, ast.FunctionDef) and node.name == FORWARD]
    found = [node for node in named if not node.decorator_list]
    return [one for one in found if [arg.arg for arg in one.args.args[:1]] == ["self"]]


def _behind(node: ast.ClassDef, path: str) -> list[ast.AST]:
    """The statement after a class."""
    for other in parsed(path):
        body = getattr(other, "body", None)
        if isinstance(other, ast.Module) and isinstance(body, list) and node in body:
            return body[body.index(node) + 1 :][:1]
    return []


def _reads(method: ast.AST, name: str) -> bool:
    """Whether a method does something with what it defines: self.forward = forward."""
    return any(isinstance(one, ast.Name) and one.id == name for one in ast.walk(method))


def is_misspelt(name: str) -> bool:
    """Whether a method's name is forward with a letter too few or in the wrong place."""
    is_like = difflib.SequenceMatcher(None, name.lower(), FORWARD).ratio() >= LIKE
    return name != FORWARD and "_" not in name and is_like


def _is_a_base(cls: type) -> bool:
    """Whether another class of its file is a sort of it, which may have what it lacks."""
    others = namespace_of(cls).values()
    return any(isinstance(one, type) and one is not cls and issubclass(one, cls) for one in others)


def _head(lines: Sequence[str], function: ast.AST) -> str:
    return lines[function.lineno - 1].partition("#")[0].strip()  # type: ignore[attr-defined]


def _without(lines: Sequence[str], function: ast.AST) -> str:
    """The text of a file without a function, in which nothing else may call it."""
    return "".join([*lines[: function.lineno - 1], *lines[function.end_lineno :]])  # type: ignore[attr-defined]
