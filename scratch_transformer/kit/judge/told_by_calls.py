"""What a file's own calls tell a flag of a class: Attention(nx, scale) in a Block(nx, scale=True)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from scratch_transformer.kit.definitions import file_of, namespace_of, parameters_of, text_of_file
from scratch_transformer.kit.syntax import is_open, last_name, nodes_in, tree_from

MOST_DEEP = 4


def told_by_calls(cls: type, name: str, depth: int = 0) -> Iterator[Any]:
    """What each call of a class gives for a parameter of its constructor; None where that is not known."""
    own = {one.name: one.default for one in parameters_of(cls)}
    file, place = tree_from(text_of_file(file_of(cls))), list(own).index(name) if name in own else 0
    inside = {id(call): one.name for one in nodes_in(file, ast.ClassDef) for call in nodes_in(one, ast.Call)}
    for call in nodes_in(file, ast.Call) if depth < MOST_DEEP and name in own else ():
        if last_name(call.func) == cls.__name__:
            named = {word.arg: word.value for word in call.keywords}
            given = named.get(name, call.args[place] if place < len(call.args) else None)
            around = namespace_of(cls).get(inside.get(id(call), ""))
            yield from _values(around, given, None if is_open(call) else own[name], depth)


def _values(around: Any, given: ast.expr | None, default: Any, depth: int) -> Iterator[Any]:
    """What a call hands over; what the class around it is told, where it hands that on."""
    own = {one.name: one.default for one in parameters_of(around)} if isinstance(around, type) else {}
    if given is None:
        yield default
    elif isinstance(given, ast.Name) and given.id in own:
        yield from [*told_by_calls(around, given.id, depth + 1)] or [own[given.id]]
    else:
        yield given.value if isinstance(given, ast.Constant) else None
