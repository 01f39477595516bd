"""What a source defines and what it does when imported, from its syntax tree. Nothing is run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from scratch_transformer.kit.discover.target import Source
from scratch_transformer.kit.syntax import DEFINITIONS, last_name, names_within, nodes_in

TRAINING_CALLS = {"backward", "fit", "zero_grad"}
PURE_CALLS = {
    "len", "int", "float", "max", "min", "range", "list", "dict", "tuple", "set", "str", "bool", "round", "abs", "sum",
    "sorted", "zip", "enumerate", "device", "is_available", "sqrt", "TypeVar", "namedtuple", "dataclass", "field",
    "NewType", "SimpleNamespace", "getLogger", "partial", "cpu_count", "Path", "manual_seed",
}  # fmt: skip
SCOPES = (*DEFINITIONS, ast.Lambda)


@dataclass(frozen=True)
class Definition:
    """A class or function at the top level of a source."""

    name: str
    line: int


@dataclass(frozen=True)
class Survey:
    """What a source defines, and what keeps it from being imported.

    error: of syntax, a sentence. trains: the line of a top-level statement that trains.
    """

    definitions: tuple[Definition, ...] = ()
    error: str = ""
    trains: int | None = None


def survey(source: Source) -> Survey:
    """Reads a source without running it."""
    try:
        tree = parse(source)
    except (SyntaxError, ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        return Survey(error=f"{source.where(line)}: Python cannot read this: {getattr(error, 'msg', error)}")
    top = (node for node in _top(tree.body) if isinstance(node, DEFINITIONS))
    definitions = {node.name: Definition(node.name, node.lineno) for node in top}
    trainers = {node.name for node in nodes_in(tree, ast.FunctionDef) if _trains(node)}
    trains = next((node.lineno for node in _actions(tree.body) if _starts_training(node, trainers)), None)
    return Survey(tuple(definitions.values()), "", trains)


def parse(source: Source) -> ast.Module:
    """The syntax tree. Files of tutorials saved as text may start with a byte order mark or hold tabs."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in the learner's strings are not our subject
        return ast.parse(source.text.lstrip("\ufeff"), filename=source.path)


def _top(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Top-level statements, and those within `if` and `try` but not of `if __name__ == "__main__"`."""
    for node in body:
        yield node
        if isinstance(node, ast.If) and not is_main_guard(node):
            yield from _top(node.body)
            yield from _top(node.orelse)
        elif isinstance(node, ast.Try):
            yield from _top([*node.body, *node.orelse, *node.finalbody])


def is_main_guard(node: ast.stmt) -> bool:
    """Is this `if __name__ == "__main__":`?"""
    return isinstance(node, ast.If) and "__name__" in names_within(node.test)


# ---- What happens at import ----


def _actions(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    return (node for node in _top(body) if not isinstance(node, DEFINITIONS) and not is_main_guard(node))


def calls(node: ast.AST) -> Iterator[str]:
    """The last part of the name of every call that happens when `node` runs, not inside definitions in it."""
    stack = [node]
    while stack:
        current = stack.pop()
        if isinstance(current, ast.Call) and (name := last_name(current.func)):
            yield name
        stack.extend(child for child in ast.iter_child_nodes(current) if not isinstance(child, SCOPES))


def _trains(node: ast.FunctionDef) -> bool:
    return any(name in TRAINING_CALLS for part in node.body for name in calls(part))


def _starts_training(node: ast.stmt, trainers: set[str]) -> bool:
    names = {*calls(node)}
    return bool(names & TRAINING_CALLS or names & trainers)


# ---- What can be run safely ----


def is_harmless(node: ast.stmt) -> bool:
    """A statement that defines something: import, class, function, constant."""
    if isinstance(node, (ast.Import, ast.ImportFrom, ast.Global, ast.Pass, *DEFINITIONS)):
        return True
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        return node.value is None or all(map(_is_pure, calls(node.value)))
    if isinstance(node, ast.AugAssign):
        return all(map(_is_pure, calls(node.value)))
    if isinstance(node, ast.If):
        return not is_main_guard(node) and all(is_harmless(part) for part in [*node.body, *node.orelse])
    if isinstance(node, ast.Try):
        parts = [*node.body, *node.orelse, *node.finalbody, *(part for h in node.handlers for part in h.body)]
        return all(is_harmless(part) or isinstance(part, (ast.Raise, ast.Expr)) for part in parts)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return getattr(node.value.func, "attr", "") in ("add_argument", "set_defaults")
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_pure(name: str) -> bool:
    return name in PURE_CALLS or name[:1].isupper()  # Config(), TransformerConfig(n_embd=...): a dataclass, a class


def settles(node: ast.stmt) -> bool:
    """An assignment whose value has to be computed: chars = sorted(set(text)), model = GPT(config)."""
    return isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign))
