"""What is asked of syntax trees everywhere: the nodes of a sort, the names in them, what is an object's own."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TypeGuard, TypeVar

Node = TypeVar("Node", bound=ast.AST)
Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
SCOPES = (*FUNCTIONS, ast.ClassDef, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
"""What has names of its own."""


def tree_from(text: str) -> ast.Module | None:
    """The tree of a text; None of one that is no Python."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None


def nodes_in(trees: ast.AST | Iterable[ast.AST] | None, sort: type[Node]) -> list[Node]:
    """The nodes of a sort in a tree, or in several, those of the first before those of the next."""
    several = [trees] if isinstance(trees, ast.AST) else trees or ()
    return [node for tree in several for node in ast.walk(tree) if isinstance(node, sort)]


def names_within(trees: ast.AST | Iterable[ast.AST] | None) -> set[str]:
    """The names in a tree, or in several, read or set; attributes are none."""
    return {node.id for node in nodes_in(trees, ast.Name)}


def inside(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope, without those of the scopes in it."""
    left = [*ast.iter_child_nodes(scope)]
    while left:
        yield (node := left.pop())
        left += [] if isinstance(node, SCOPES) else ast.iter_child_nodes(node)


def is_on(node: ast.stmt | ast.expr, line: int) -> bool:
    """Whether a node is on a line, or goes over it."""
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def is_of_self(node: ast.AST | None) -> TypeGuard[ast.Attribute]:
    """self.name: an attribute of the object's own, and none of one of its parts."""
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


class Text(ast.Constant):
    """What mypy takes such a constant for."""

    value: str


def is_text(node: ast.AST | None) -> TypeGuard[Text]:
    """A constant that is a string."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def is_stored(node: ast.AST, name: str = "") -> TypeGuard[ast.Name]:
    """A name that is given a value: this one, or any."""
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and name in ("", node.id)


def method_of(cls: ast.AST | None, name: str) -> ast.FunctionDef | None:
    """The method of a class, as it is written there."""
    body = getattr(cls, "body", ())
    return next((one for one in body if isinstance(one, ast.FunctionDef) and one.name == name), None)


def last_name(called: ast.AST) -> str:
    """Linear of nn.Linear, and of Linear; "" of what is neither a name nor an attribute."""
    return getattr(called, "attr", getattr(called, "id", ""))


def arguments_of(call: ast.Call) -> list[ast.expr]:
    """What a call hands over, by place and then by name."""
    return [*call.args, *(word.value for word in call.keywords)]


def is_open(call: ast.Call) -> bool:
    """Whether a call hands over what is not written there: f(*args), f(**options)."""
    return any(isinstance(one, ast.Starred) for one in call.args) or any(not word.arg for word in call.keywords)


def assignments(nodes: Iterable[ast.AST]) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What gets which value, of all nodes that assign: a, b = c, d is a = c and b = d."""
    for node in nodes:
        if isinstance(node, ast.Assign):
            target, value = node.targets[0], node.value
            targets = target.elts if isinstance(target, ast.Tuple) else [target]
            values = value.elts if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) else []
            yield from zip(targets, values if len(values) == len(targets) else [value] * len(targets), strict=True)


def sums_in(nodes: Iterable[ast.AST]) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Both terms of all sums: of a + b, and of a += b."""
    for node in nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            yield node.left, node.right
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            yield node.target, node.value


def settles(nodes: Iterable[ast.AST], name: str, *asking: type[ast.AST]) -> bool:
    """Whether code has a test that reads a name, or stores something in it: then it need not be what it was told.

    asking: what counts as a test besides.
    """
    tests: list[ast.AST] = []
    for node in nodes:
        if is_stored(node, name):
            return True
        tests += [node.test] if isinstance(node, (ast.If, ast.IfExp, ast.While, ast.Assert)) else []
        tests += [node] if isinstance(node, asking) else []
    return name in names_within(tests)
