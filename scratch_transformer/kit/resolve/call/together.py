"""Forwards that are given all inputs in one: a dictionary, batch["input_ids"], or a tuple, ids, segments = inputs.

Or a list: q = inputs[0].
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch import nn

from scratch_transformer.kit.definitions import nodes_of
from scratch_transformer.kit.resolve.build.construct import parameters_of
from scratch_transformer.kit.syntax import is_text

Names = dict[str, Any]
"""Of what is in it, in order: what each is by default; Parameter.empty if it must be given."""
Take = Callable[[str, list[ast.AST]], Iterator[tuple[ast.expr, str, Any]]]


def of_parts(made: nn.Module) -> Callable[..., Any] | None:
    """What is taken apart, one by one -> what the forward gives for all of it together; None for any other forward."""
    known = parameters_of(made.forward)
    needed, nodes = [p.name for p in known if p.default is p.empty], nodes_of(type(made).forward)
    sorts: tuple[tuple[str, Take], ...] = (("dictionary", _keys), ("tuple", _elements), ("list", _numbered))
    for sort, taken in sorts if len(needed) == 1 else ():
        names = _names(needed[0], nodes, taken)
        if names and all(name.isidentifier() for name in names):
            others = [p for p in known if p.name not in (*needed, *names)]
            return _joined(made, needed[0], sort, names, others)
    return None


def _joined(
    made: nn.Module, whole: str, sort: str, names: Names, others: Sequence[inspect.Parameter]
) -> Callable[..., Any]:  # fmt: skip
    def forward(**given: Any) -> Any:
        own = {name: given.pop(name, None) for name in names}
        own = {name: v for name, v in own.items() if v is not None or names[name] is inspect.Parameter.empty}
        return made(own if sort == "dictionary" else (tuple if sort == "tuple" else list)(own.values()), **given)

    parts = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=names[name]) for name in names]
    others = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in others]
    forward.__signature__ = inspect.Signature([*parts, *others])  # type: ignore[attr-defined]
    forward.note = f"Its argument {whole} is a {sort}: {', '.join(names)}."  # type: ignore[attr-defined]
    return forward


def _names(whole: str, nodes: list[ast.AST], taken: Take) -> Names:
    """What a function takes out of a parameter, if that is all that it does with it; {} if it does anything else."""
    uses = {id(node) for node in nodes if isinstance(node, ast.Name) and node.id == whole}
    found, names = [*taken(whole, nodes)], Names()
    for _, name, default in found:
        names[name] = default if names.get(name, default) is not None else None
    return names if {id(use) for use, _, _ in found} == uses else {}


def _keys(whole: str, nodes: list[ast.AST]) -> Iterator[tuple[ast.expr, str, Any]]:
    """Of batch["ids"], and of batch.get("mask") and "mask" in batch, which need not be there."""
    needed, optional = inspect.Parameter.empty, None
    for node in nodes:
        if isinstance(node, ast.Subscript) and _is(node.value, whole) and is_text(node.slice):
            yield node.value, node.slice.value, needed
        elif isinstance(node, ast.Compare) and _is(node.comparators[0], whole) and is_text(node.left):
            yield node.comparators[0], node.left.value, optional
        elif isinstance(node, ast.Call) and _gets(node.func, whole) and node.args and is_text(node.args[0]):
            yield node.func.value, node.args[0].value, optional  # type: ignore[attr-defined]


def _elements(whole: str, nodes: list[ast.AST]) -> Iterator[tuple[ast.expr, str, Any]]:
    """Of ids, segments = inputs."""
    for node in nodes:
        if (
            isinstance(node, ast.Assign)
            and _is(node.value, whole)
            and isinstance(node.targets[0], (ast.Tuple, ast.List))
        ):
            for one in node.targets[0].elts:
                yield node.value, ast.unparse(one), inspect.Parameter.empty


def _numbered(whole: str, nodes: list[ast.AST]) -> Iterator[tuple[ast.expr, str, Any]]:
    """Of q = inputs[0] and k = inputs[1]: as many as are counted from 0, at least two."""
    found = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript) and _is(node.value.value, whole):
            (target, *more), number = node.targets, node.value.slice
            if isinstance(target, ast.Name) and isinstance(number, ast.Constant) and not more:
                found[number.value] = (node.value.value, target.id, inspect.Parameter.empty)
    if len(found) > 1 and set(found) == set(range(len(found))):
        yield from (found[number] for number in range(len(found)))


def _gets(node: ast.expr, whole: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "get" and _is(node.value, whole)


def _is(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
