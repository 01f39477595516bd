"""Defaults that a file makes of what is not there, vocab_size=len(chars), are left open: as if there were none."""

from __future__ import annotations

import ast
import builtins
import types
from collections.abc import Collection, Iterator

from scratch_transformer.kit.definitions import LeftOpen
from scratch_transformer.kit.discover.placeholders import Missing
from scratch_transformer.kit.syntax import DEFINITIONS, is_stored, nodes_in

NAME = "__left_open__"
"""In the namespace of a file: what stands for such a default."""


def leave_open(node: ast.stmt, lines: Collection[int], file: ast.Module, module: types.ModuleType) -> bool:
    """Whether a definition stops on one of these lines at such a default, which is put away.

    What the file nowhere makes before is no such default: there, Python stops.
    """
    found = False
    for arguments in [one.args for one in ast.walk(node) if isinstance(one, DEFINITIONS[:2])]:
        for values in (arguments.defaults, arguments.kw_defaults):
            for index, value in enumerate(values):
                if value is not None and value.lineno in lines and _lacks(value, node, file, module):
                    values[index] = ast.copy_location(ast.Name(NAME, ast.Load()), value)
                    found = True
    if found:
        vars(module)[NAME] = LeftOpen()
    return found


def _lacks(value: ast.expr, node: ast.stmt, file: ast.Module, module: types.ModuleType) -> bool:
    """Whether an expression reads what was imported and is not there, or what is made in lines that did not run."""
    known, made = vars(module), {*_made_before(node.lineno, file)}
    names = [one.id for one in nodes_in(value, ast.Name)]
    return any(
        isinstance(known[name], Missing) if name in known else name in made and not hasattr(builtins, name)
        for name in names
    )


def _made_before(line: int, file: ast.Module) -> Iterator[str]:
    """The names that a file stores something in before a line, definitions aside."""
    for statement in file.body:
        if statement.lineno < line and not isinstance(statement, DEFINITIONS):
            for one in ast.walk(statement):
                if is_stored(one):
                    yield one.id
