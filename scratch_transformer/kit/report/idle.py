"""Lines that are never run, as a flag decides it once for all: the else of if self.flash:, where that is true."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from scratch_transformer.kit.definitions import lines_of, nodes_of
from scratch_transformer.kit.syntax import is_of_self


def of_modules(modules: Iterable[Any], path: str = "") -> frozenset[tuple[str, int]]:
    """Files and numbers of the lines of the branches that none of the modules takes.

    path: a flag with another value than it has, "self.flash = True".
    """
    taken: dict[tuple[str, int], bool] = {}
    for module in modules:
        for line, runs in _branches(module, path):
            taken[line] = taken.get(line, False) or runs
    return frozenset(line for line, runs in taken.items() if not runs)


def choices(nodes: Iterable[ast.AST]) -> Iterator[tuple[ast.expr, Sequence[ast.stmt], Sequence[ast.stmt]]]:
    """Every question with what is done if it is true, and else: behind it, where it returns if it is true."""
    for node in nodes:
        for block in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
            lines = block if isinstance(block, list) else []
            for number, line in enumerate(lines):
                if isinstance(line, ast.If):
                    ends = isinstance(line.body[-1], (ast.Return, ast.Raise))
                    yield line.test, line.body, line.orelse or (lines[number + 1 :] if ends else [])


def _branches(module: Any, path: str) -> Iterable[tuple[tuple[str, int], bool]]:
    """The lines within if self.flag: and its else, and whether they are run in this module."""
    forward: Any = getattr(type(module), "forward", None)
    asked = [*choices(nodes_of(forward))] if inspect.isfunction(forward) else []
    if not asked:
        return
    file, start = inspect.getsourcefile(forward) or "", lines_of(forward)[1]
    for test, body, other in asked:
        is_true = _value(test, module, path)
        for branch, runs in ((body, is_true is True), (other, is_true is False)):
            for one in branch if is_true is not None else ():
                for number in range(one.lineno, (one.end_lineno or one.lineno) + 1):
                    yield (file, start + number - 1), runs


def _value(test: ast.expr, module: Any, path: str) -> bool | None:
    """Whether a question is true in a module; None if no flag decides that."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inside = _value(test.operand, module, path)
        return None if inside is None else not inside
    if isinstance(test, ast.BoolOp):
        deciding = isinstance(test.op, ast.Or)
        found = [_value(one, module, path) for one in test.values]
        return deciding if deciding in found else None if None in found else not deciding
    flag, _, value = path.partition(" = ")
    if ast.unparse(test) == flag:
        return value == "True"
    kept = getattr(module, test.attr, None) if is_of_self(test) else None
    return kept if isinstance(kept, bool) else None
