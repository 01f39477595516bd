"""What dropout makes of the weights of attention, where the values are weighted without."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from scratch_transformer.kit.definitions import nodes_of
from scratch_transformer.kit.syntax import assignments

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
