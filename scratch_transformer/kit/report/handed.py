"""Where a class hands its own method queries, keys and values in another order than that takes them."""

from __future__ import annotations

import ast
from typing import Any

from scratch_transformer.kit.definitions import nodes_of, tree_of
from scratch_transformer.kit.syntax import names_within, nodes_in


def exchanged(definition: Any) -> int | None:
    """At which line of a class, from 0: self.attend(key, value, query) of def attend(self, value, key, query)."""
    body = getattr(tree_of(definition), "body", [])
    methods = {one.name: [arg.arg for arg in one.args.args[1:]] for one in body if isinstance(one, ast.FunctionDef)}
    for call in nodes_in(body, ast.Call):
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
    for loop in nodes_of(definition, ast.For):
        counted = names_within(loop.target)
        for statement in loop.body:
            call = statement.value if isinstance(statement, (ast.Assign, ast.Expr)) else None
            if not isinstance(call, ast.Call) or not counted & names_within(call.func) or not call.args:
                continue
            targets = statement.targets if isinstance(statement, ast.Assign) else []
            if not names_within(call.args[0]) & names_within(targets):
                return loop.lineno - 1
    return None
