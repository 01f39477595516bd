"""Small changes of learner-like code, one at a time: another operator, number, argument or mask, a statement less.

for mutation in mutations(text):
    print(mutation.name, mutation.line, mutation.words)
"""

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
COMPARISONS = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
STATEMENTS = (ast.Assign, ast.AugAssign, ast.Expr, ast.If)


@dataclass(frozen=True)
class Mutation:
    """name: of the top-level class or function that is changed. words: what was changed. text: of the whole file."""

    name: str
    line: int
    kind: str
    words: str
    text: str


def mutations(text: str) -> Iterator[Mutation]:
    """All of them, in the order of the file."""
    tree = ast.parse(text)
    for definition in tree.body:
        if not isinstance(definition, (ast.ClassDef, ast.FunctionDef)):
            continue
        for function in ast.walk(definition):
            if isinstance(function, ast.FunctionDef):
                yield from _of_function(tree, definition.name, function)


def _of_function(tree: ast.Module, name: str, function: ast.FunctionDef) -> Iterator[Mutation]:
    own = list(_inside(function))
    arguments = [a.arg for a in function.args.args + function.args.kwonlyargs if a.arg != "self"]
    for parent in (function, *own):
        for field, value in ast.iter_fields(parent):
            if parent is function and field != "body":
                continue
            if isinstance(value, list):
                for index, child in enumerate(value):
                    if isinstance(child, ast.AST):
                        yield from _at(tree, name, child, value, index, arguments)
            elif isinstance(value, ast.AST):
                yield from _at(tree, name, value, parent, field, arguments)


def _inside(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """Nodes of its body that are not in a function within."""
    todo: list[ast.AST] = list(function.body)
    while todo:
        node = todo.pop(0)
        yield node
        todo += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.FunctionDef)]


def _at(tree, name, node, holder, key, arguments) -> Iterator[Mutation]:
    before = ast.unparse(node)
    for kind, new in _others(node, arguments):
        _put(holder, key, new)
        try:
            mutated = ast.unparse(ast.fix_missing_locations(tree))
        finally:
            _put(holder, key, node)
        after = ast.unparse(new) if not isinstance(new, ast.Pass) else "nothing"
        yield Mutation(name, getattr(node, "lineno", 0), kind, f"{before[:70]} -> {after[:70]}", mutated)


def _put(holder, key, value) -> None:
    if isinstance(holder, list):
        holder[key] = value
    else:
        setattr(holder, key, value)


def _others(node: ast.AST, arguments: list[str]) -> Iterator[tuple[str, ast.AST]]:
    """What may stand in a node's place."""
    if isinstance(node, STATEMENTS) and not _is_needed(node):
        yield "statement", ast.Pass()
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        yield "operator", _with(node, op=OPERATORS[type(node.op)]())
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
        yield "comparison", _with(node, ops=[COMPARISONS[type(node.ops[0])]()])
    if isinstance(node, ast.Constant):
        yield from (("constant", ast.Constant(value)) for value in _other_constants(node.value))
    if isinstance(node, ast.IfExp):
        yield "branch", node.body
        yield "branch", node.orelse
    if isinstance(node, ast.If):
        yield "branch", _with(node, test=ast.UnaryOp(ast.Not(), node.test))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Invert, ast.Not)):
        yield "operator", node.operand
    if isinstance(node, ast.Call):
        yield from _other_calls(node)
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in arguments:
        for other in arguments:
            if other != node.id:
                yield "mask" if "mask" in node.id and "mask" in other else "name", ast.Name(other, ast.Load())
        if "mask" in node.id:
            yield "mask", ast.Constant(None)


def _other_constants(value) -> list:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1] if value else [1]
    return [value * 2] if isinstance(value, float) else []


def _other_calls(node: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    for index in range(len(node.args) - 1):
        args = list(node.args)
        args[index], args[index + 1] = args[index + 1], args[index]
        if ast.dump(args[index]) != ast.dump(args[index + 1]):
            yield "arguments", _with(node, args=args)
    for index in range(len(node.keywords)):
        yield "arguments", _with(node, keywords=[k for i, k in enumerate(node.keywords) if i != index])
    if isinstance(node.func, ast.Attribute) and not _is_name(node.func.value, "torch", "F", "nn", "math", "np", "self"):
        yield "call", node.func.value
    elif len(node.args) == 1 and not node.keywords and not isinstance(node.args[0], (ast.Starred, ast.Constant)):
        yield "call", node.args[0]


def _is_name(node: ast.AST, *names: str) -> bool:
    root = node
    while isinstance(root, ast.Attribute):
        root = root.value
    return isinstance(root, ast.Name) and root.id in names and (root.id != "self" or isinstance(node, ast.Name))


def _is_needed(node: ast.stmt) -> bool:
    """A docstring, or super().__init__()."""
    if not isinstance(node, ast.Expr):
        return False
    return isinstance(node.value, ast.Constant) or "super()" in ast.unparse(node)


def _with(node: ast.AST, **fields) -> ast.AST:
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new
