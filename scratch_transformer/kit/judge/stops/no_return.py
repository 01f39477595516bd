"""B26: a forward that ends without return gives None, whatever it is given: what calls it stops."""

from __future__ import annotations

import ast
import inspect
import re
from typing import Any

from scratch_transformer.kit.definitions import is_of_torch, lines_of, source_of, tree_of
from scratch_transformer.kit.judge.frames import DONE_AT
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.construction import OF_FORWARD
from scratch_transformer.kit.syntax import inside

GIVES = (ast.Return, ast.Yield, ast.YieldFrom, ast.Raise)
LEFT_TO_WRITE = re.compile(r"todo|your code|implement|\bpass\b|\.\.\.", re.IGNORECASE)


def finding(thing: Any) -> Finding | None:
    """B26; None for what returns something, or is not written yet."""
    forward = getattr(thing, "forward", None) if isinstance(thing, type) else None
    if not inspect.isfunction(forward) or is_of_torch(forward) or LEFT_TO_WRITE.search(source_of(forward)):
        return None
    tree = tree_of(forward)
    if not isinstance(tree, ast.FunctionDef) or len(tree.body) < 2 or any(map(_gives, inside(tree))):
        return None
    last = lines_of(forward)[0][(tree.body[-1].end_lineno or 1) - 1].strip()
    said = f"Its forward ends without return: {thing.__name__} gives None, whatever it is given."
    return Finding(MISTAKES["B26"], f"{said} {DONE_AT}{last}", fix=OF_FORWARD)


def _gives(node: ast.AST) -> bool:
    return isinstance(node, GIVES) and not (isinstance(node, ast.Return) and node.value is None)
