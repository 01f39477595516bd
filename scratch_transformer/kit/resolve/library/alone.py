"""Whether a part gives the code of the positions alone, which whoever calls it adds, or adds it itself."""

from __future__ import annotations

import ast
from typing import Any

from scratch_transformer.kit.definitions import nodes_of, parameters_of
from scratch_transformer.kit.syntax import assignments, last_name, sums_in

OF_SHAPE = {"shape", "size", "device", "dtype", "dim", "ndim", "is_cuda"}
LIKE = {"len", "zeros_like", "ones_like", "empty_like"}
"""What these tell of a tensor, or make of it, does not depend on its values; nor does a place in a table: pe[ids]."""
AS_OTHER = {"to", "type_as", "expand_as", "view_as", "reshape_as"}
"""Methods that are given a tensor for its type or shape."""


def returns_alone(part: Any) -> bool | None:
    """Whether what a class's forward returns has the values of none of its arguments; None if that cannot be told."""
    forward = getattr(part, "forward", None) if isinstance(part, type) else None
    nodes = nodes_of(forward)
    given = {parameter.name for parameter in parameters_of(forward)[1:]} if nodes else set()
    for target, value in assignments(nodes):
        if isinstance(target, ast.Name):
            given = given | {target.id} if _has_values(value, given) else given - {target.id}
    if any(_has_values(one, given) for pair in sums_in(nodes) for one in pair):
        return False
    returned = [node.value for node in nodes if isinstance(node, ast.Return) and node.value is not None]
    return True if returned and not any(_has_values(one, given) for one in returned) else None


def _has_values(node: ast.AST, given: set[str]) -> bool:
    """Whether an expression has the values of one of these names, and not its shape or type alone."""
    if isinstance(node, ast.Name):
        return node.id in given
    if isinstance(node, ast.Attribute) and (node.attr in OF_SHAPE or node.attr.startswith("new_")):
        return False
    if isinstance(node, ast.Subscript):
        return _has_values(node.value, given)
    if isinstance(node, ast.Call):
        name = last_name(node.func)
        if name in LIKE:
            return False
        if name in AS_OTHER:
            return _has_values(node.func, given)
    return any(_has_values(child, given) for child in ast.iter_child_nodes(node))
