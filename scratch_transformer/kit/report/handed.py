"""Where a class hands its own method queries, keys and values in another order than that takes them."""

from __future__ import annotations

import ast
from typing import Any

from scratch_transformer.kit.definitions import tree_of


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
