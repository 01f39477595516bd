"""B26: an attribute that a constructor sets only if it is told something: if dropout: self.dropout = …"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Sequence
from typing import Any

from scratch_transformer.kit.definitions import tree_of
from scratch_transformer.kit.syntax import is_of_self, names_within, nodes_in, tree_from


def without(classes: Sequence[type], name: str, text: str) -> str:
    """The argument without which self.name is never set, with its default: "dropout=None"; "" if it may be set.

    classes: its own and their bases. text: of their files.
    """
    if re.search(r"\bsetattr\(|__dict__|__getattr__", text):
        return ""
    file, trees = tree_from(text), [*filter(None, map(tree_of, classes))]
    stored = [node for node in nodes_in(file, ast.Attribute) if _sets(node, name)]
    if file is None or len(trees) < len(classes) or not all(map(is_of_self, stored)):
        return ""
    defaults = _defaults(classes[0])
    told = {argument for tree in trees for argument in _arguments(tree, name, defaults)}
    one = next(iter(told), "")
    return f"{one}={defaults[one]!r}" if len(told) == 1 and one else ""


def _sets(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Store)


def _defaults(cls: type) -> dict[str, Any]:
    """The constructor's parameters that have one -> it."""
    try:
        known = inspect.signature(cls).parameters.values()
    except (TypeError, ValueError):
        return {}
    return {one.name: one.default for one in known if one.default is not one.empty}


def _arguments(tree: ast.AST, name: str, defaults: dict[str, Any]) -> Iterator[str]:
    """Of every place that sets self.name the argument that decides it, and does not by default; "" for any other."""
    unset: set[int] = set()
    for node in ast.walk(tree):
        is_constructor = isinstance(node, ast.FunctionDef) and node.name == "__init__"
        for choice in ast.walk(node) if is_constructor else ():
            argument = _undecided(choice.test, defaults) if isinstance(choice, ast.If) else ""
            inside = choice.body if isinstance(choice, ast.If) and argument else []
            for one in nodes_in(inside, ast.Attribute):
                if _sets(one, name):
                    unset.add(id(one))
                    yield argument
    if any(_sets(node, name) and id(node) not in unset for node in ast.walk(tree)):
        yield ""


def _undecided(test: ast.expr, defaults: dict[str, Any]) -> str:
    """The one argument that a test is about, if it is false by default; "" if it is not, or about anything else."""
    names = names_within(test)
    argument = next(iter(names), "")
    if len(names) != 1 or argument not in defaults or any(isinstance(node, ast.Call) for node in ast.walk(test)):
        return ""
    try:
        holds = eval(
            compile(ast.Expression(test), "<test>", "eval"), {"__builtins__": {}}, {argument: defaults[argument]}
        )
    except Exception:  # of a default that cannot be compared
        return ""
    return "" if holds else argument
