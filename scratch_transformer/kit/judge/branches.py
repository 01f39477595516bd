"""The flags by which code chooses between torch's fused attention and its own, if self.flash: … else: …"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Any

from scratch_transformer.kit.definitions import is_own, namespace_of, nodes_of, tree_of
from scratch_transformer.kit.report.idle import choices
from scratch_transformer.kit.syntax import Function, is_of_self

FUSED, WRITTEN_OUT = re.compile(r"scaled_dot_product"), re.compile(r"(?i)soft_?max")
OTHER_SENSE = re.compile(r"(?i)causal|mask|bias|rope|pos")
"""In the name of a flag that asks for other numbers."""
DEEP = 2
"""How many methods lead from a branch to what attends."""
Branch = Sequence[ast.AST]


def flags_of(definition: Any) -> list[str]:
    """The flags of a class or function, as its code has them: "self.flash", "need_weights"."""
    nodes = nodes_of(definition)
    in_lines = [(node.test, [node.body], [node.orelse]) for node in nodes if isinstance(node, ast.IfExp)]
    found = [
        flag
        for test, one, other in (*choices(nodes), *in_lines)
        if _are_two_ways(*(_ways(branch, definition, DEEP) for branch in (one, other)))
        for flag in _asked(test)
    ]
    return [flag for flag in dict.fromkeys(found) if not OTHER_SENSE.search(flag)]


def _are_two_ways(one: set[str], other: set[str]) -> bool:
    """Whether both attend, and torch's fused attention is in one of them alone."""
    return bool(one and other) and ("fused" in one) != ("fused" in other)


def _ways(branch: Branch, definition: Any, deep: int) -> set[str]:
    """ "fused", "written out", or both, of what attends in a branch, or in the methods and functions that it calls."""
    found = set[str]()
    for node in (one for part in branch for one in ast.walk(part)):
        if isinstance(node, (ast.Name, ast.Attribute)):
            name = node.id if isinstance(node, ast.Name) else node.attr
            found |= {"fused"} if FUSED.search(name) else {"written out"} if WRITTEN_OUT.search(name) else set()
        if isinstance(node, ast.Call) and deep:
            found |= _ways(_called(node.func, definition), definition, deep - 1)
    return found


def _called(function: ast.expr, definition: Any) -> Branch:
    """The lines of a method of the class, or of a function of its file."""
    if isinstance(function, ast.Name):
        own = namespace_of(definition).get(function.id)
        tree = tree_of(own) if callable(own) and is_own(own) else None
        return tree.body if isinstance(tree, Function) else []
    name = function.attr if is_of_self(function) else ""
    methods = [node for node in nodes_of(definition) if isinstance(node, Function) and node.name == name]
    return methods[0].body if methods else []


def _asked(test: ast.expr) -> Iterator[str]:
    """self.flash and not need_weights asks for two."""
    for one in test.values if isinstance(test, ast.BoolOp) else [test]:
        plain = one.operand if isinstance(one, ast.UnaryOp) and isinstance(one.op, ast.Not) else one
        if isinstance(plain, ast.Name) or is_of_self(plain):
            yield ast.unparse(plain)
