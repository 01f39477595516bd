"""What a class hands on that is not what it should: queries, keys and values in another order than its own method takes
them, the first input to every layer, weights that dropout has been given in place of what it gave.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from scratch_transformer.kit.definitions import nodes_of, tree_of
from scratch_transformer.kit.syntax import assignments, names_within, nodes_in


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


DROPS = re.compile(r"(?i)drop\w*$")
PRODUCTS = {"matmul", "bmm", "einsum"}


def weighed_without(definition: Any) -> int | None:
    """At which line of a class, from 0, weights are multiplied that dropout has been given, and not what it gave."""
    nodes = nodes_of(definition)
    products = [*_products(nodes)]
    used = {name for _, names in products for name in names}
    for target, value in assignments(nodes):
        drops = isinstance(value, ast.Call) and DROPS.search(ast.unparse(value.func)) and value.args
        given = ast.unparse(value.args[0]) if drops and isinstance(value, ast.Call) else ""
        if not given.isidentifier() or ast.unparse(target) in {given, *used}:
            continue
        later = [line for line, names in products if line > value.lineno and names[:1] == [given]]
        if later:
            return later[0] - 1
    return None


def _products(nodes: list[ast.AST]) -> Iterator[tuple[int, list[str]]]:
    """The lines of products of matrices, with what is multiplied there."""
    for node in nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            yield node.lineno, [ast.unparse(node.left), ast.unparse(node.right)]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in PRODUCTS:
            factors = [one for one in node.args if not isinstance(one, ast.Constant)]
            yield node.lineno, [*map(ast.unparse, factors)]
