"""B26: a forward that ends without return gives None, whatever it is given: what calls it stops."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from typing import Any

from scratch_transformer.kit.definitions import is_of_torch, lines_of, source_of, tree_of
from scratch_transformer.kit.judge.frames import DONE_AT
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES

GIVES = (ast.Return, ast.Yield, ast.YieldFrom, ast.Raise)
LEFT_TO_WRITE = re.compile(r"todo|your code|implement|\bpass\b|\.\.\.", re.IGNORECASE)
INSIDE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def finding(thing: Any) -> Finding | None:
    """B26; None for what returns something, or is not written yet."""
    forward = getattr(thing, "forward", None) if isinstance(thing, type) else None
    if not inspect.isfunction(forward) or is_of_torch(forward) or LEFT_TO_WRITE.search(source_of(forward)):
        return None
    tree = tree_of(forward)
    if not isinstance(tree, ast.FunctionDef) or len(tree.body) < 2 or any(map(_gives, _own(tree))):
        return None
    last = lines_of(forward)[0][(tree.body[-1].end_lineno or 1) - 1].strip()
    said = f"Its forward ends without return: {thing.__name__} gives None, whatever it is given."
    return Finding(MISTAKES["B26"], f"{said} {DONE_AT}{last}")


def _gives(node: ast.AST) -> bool:
    return isinstance(node, GIVES) and not (isinstance(node, ast.Return) and node.value is None)


def _own(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, without those of what is defined within it."""
    for node in ast.iter_child_nodes(function):
        if not isinstance(node, INSIDE):
            yield node
            yield from _own(node)
