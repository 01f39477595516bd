"""Where a class hands its own method queries, keys and values in another order than that takes them."""

from __future__ import annotations

import ast
from typing import Any

from scratch_transformer.kit.definitions import nodes_of, tree_of


def exchanged(definition: Any) -> int | None:
    """At which line of a class, from 0: self.attend(key, value, query) of def attend(self, value, key, query)."""
    body = getattr(tree_of(definition), "body", [])
    methods = {one.name: [arg.arg for arg in one.args.args[1:]] for one in body if isinstance(one, ast.FunctionDef)}
    for call in (node for statement in body for node in ast.walk(statement) if isinstance(node, ast.Call)):
        called = ast.unparse(call.func).removeprefix("self.")
        given = [arg.id if isinstance(arg, ast.Name) else "" for arg in call.args]
        taken = methods.get(called, [])[: len(given)]
        moved = [one for one, other in zip(given, taken, strict=False) if one in taken and one != other]
        if len(moved) > 1:
            return call.lineno - 1
    return None


def the_first_input(definition: Any) -> int | None:
    """At which line of a class, from 0, a loop begins that calls its parts, one by one, and hands on what none gave.

    for layer in self.layers: output = layer(x), or layer(x) alone.
    """
    for loop in (node for node in nodes_of(definition) if isinstance(node, ast.For)):
        counted = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
        for statement in loop.body:
            call = statement.value if isinstance(statement, (ast.Assign, ast.Expr)) else None
            if not isinstance(call, ast.Call) or not counted & _names(call.func) or not call.args:
                continue
            targets = statement.targets if isinstance(statement, ast.Assign) else []
            if not _names(call.args[0]) & {name for target in targets for name in _names(target)}:
                return loop.lineno - 1
    return None


def _names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
