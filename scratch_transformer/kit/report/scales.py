"""Where a class of attention makes the number that it scales its scores with, before any forward: self.scale = …"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any, TypeGuard

from scratch_transformer.kit.definitions import source_of, tree_of
from scratch_transformer.kit.syntax import assignments, method_of, nodes_in

SCORES = re.compile(r" @ |matmul|bmm|einsum|dot\(")
SCALE = re.compile(r"(?i)scal|sqrt|factor|temper|root|divis")
"""What such a number is called."""
WIDTH = re.compile(
    r"(?i)^(self\.)?_?(d_?[kq]|d_?head|dim_?(per_?)?head|dim_?key|head_?(dim|size|width)|size_per_head)$"
)
"""What the width of one head is called."""


def made(definition: Any) -> tuple[int, list[str]] | None:
    """The line of a class, from 0, at which it makes the number, and what should stand there, as far as that is known.

    Not what it is only told, self.scale = scale, nor what is right there and used twice, for queries and keys.
    """
    text, tree = source_of(definition), tree_of(definition)
    if not isinstance(tree, ast.ClassDef) or not SCORES.search(text) or "softmax" not in text:
        return None
    make = method_of(tree, "__init__") or tree
    own = {ast.unparse(target): value for target, value in assignments(ast.walk(make))}
    uses = [*_uses(tree)]
    for name, is_factor in uses:
        value = own.get(name)
        if value is None or isinstance(value, (ast.Name, ast.Attribute)) or len(uses) > 1:
            continue
        width = _width(make, value.lineno)
        line = text.splitlines()[value.lineno - 1]
        shift = text.index("class ") - text.rfind("\n", 0, text.index("class ")) - 1  # of a class within another
        put = f"{width} ** {'-' if is_factor else ''}0.5"
        new = f"{line[: value.col_offset + shift]}{put}{line[(value.end_col_offset or 0) + shift :]}"
        if new != line:
            return value.lineno - 1, [new] if width and value.end_lineno == value.lineno else []
    return None


ROOT = re.compile(r"(?i)sqrt|\*\* *\(?-? *(0?\.5|1 ?/ ?2)|scal")
TURNED_TO_SCORES = re.compile(r"(?i)^(self\.)?_?[qk](s|_?heads?|uer(y|ies)|eys?)?(_\w+)?$")
"""What queries and keys are called."""


def twice(definition: Any) -> int | None:
    """The line of a class or function, from 0, that scales queries or keys, where their products are scaled as well."""
    tree = tree_of(definition)
    for function in ast.walk(tree) if tree is not None else ():
        if not isinstance(function, ast.FunctionDef):
            continue
        scaled = [node for node in ast.walk(function) if _is_scaling(node)]
        first = [node for node in scaled if TURNED_TO_SCORES.search(_scaled(node)) and not SCORES.search(_scaled(node))]
        if first and any(SCORES.search(ast.unparse(node)) or "score" in ast.unparse(node) for node in scaled):
            return first[0].lineno - 1
    return None


def _is_scaling(node: ast.AST) -> TypeGuard[ast.BinOp | ast.AugAssign]:
    """Whether something is multiplied with, or divided by, a root or what is called a scale."""
    by = node.right if isinstance(node, ast.BinOp) else node.value if isinstance(node, ast.AugAssign) else None
    is_of_sizes = by is None or not isinstance(getattr(node, "op", None), (ast.Mult, ast.Div))
    return not is_of_sizes and ROOT.search(ast.unparse(by or node)) is not None


def _scaled(node: ast.BinOp | ast.AugAssign) -> str:
    return ast.unparse(node.left if isinstance(node, ast.BinOp) else node.target)


def _uses(tree: ast.ClassDef) -> Iterator[tuple[str, bool]]:
    """The attributes that something is multiplied with or divided by, and whether they are factors."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, (ast.Mult, ast.Div)):
            is_factor = isinstance(node.op, ast.Mult)
            sides = [node.right, *([node.left] if is_factor else [])] if isinstance(node, ast.BinOp) else [node.value]
            names = [ast.unparse(side) for side in sides if isinstance(side, ast.Attribute)]
            yield from ((name, is_factor) for name in names if name.startswith("self.") and SCALE.search(name))


def _width(make: ast.AST, before: int) -> str:
    """What the width of one head is called above a line: self.d_k, or (d_model // num_heads); "" if nothing is."""
    told = [node.arg for node in nodes_in(make, ast.arg) if WIDTH.search(node.arg)]
    pairs = [(ast.unparse(target), value) for target, value in assignments(ast.walk(make))]
    widths = [(target, value) for target, value in pairs if WIDTH.search(target) and isinstance(value, ast.BinOp)]
    above = [target for target, value in widths if value.lineno < before]
    of_names = [v for _, v in widths if not any(isinstance(node, ast.Attribute) for node in ast.walk(v))]
    return next(iter([*told, *above, *(f"({ast.unparse(value)})" for value in of_names)]), "")
