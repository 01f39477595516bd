"""Lines that are never run, as an attribute decides it once for all: the else of if self.flash:, where that is true."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable
from typing import Any

from scratch_transformer.kit.definitions import lines_of, nodes_of


def of_modules(modules: Iterable[Any]) -> frozenset[tuple[str, int]]:
    """Files and numbers of the lines of the branches that none of the modules takes."""
    taken: dict[tuple[str, int], bool] = {}
    for module in modules:
        for line, runs in _branches(module):
            taken[line] = taken.get(line, False) or runs
    return frozenset(line for line, runs in taken.items() if not runs)


def _branches(module: Any) -> Iterable[tuple[tuple[str, int], bool]]:
    """The lines within if self.flag: and its else, and whether they are run in this module."""
    forward: Any = getattr(type(module), "forward", None)
    tests = [node for node in nodes_of(forward) if isinstance(node, ast.If)] if inspect.isfunction(forward) else []
    if not tests:
        return
    file, start = inspect.getsourcefile(forward) or "", lines_of(forward)[1]
    for node in tests:
        is_turned = isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not)
        asked = node.test.operand if isinstance(node.test, ast.UnaryOp) else node.test
        is_own = isinstance(asked, ast.Attribute) and ast.unparse(asked.value) == "self"
        flag = getattr(module, asked.attr, None) if is_own and isinstance(asked, ast.Attribute) else None
        for branch, runs in ((node.body, flag is not is_turned), (node.orelse, flag is is_turned)):
            for one in branch if isinstance(flag, bool) else ():
                for number in range(one.lineno, (one.end_lineno or one.lineno) + 1):
                    yield (file, start + number - 1), runs
