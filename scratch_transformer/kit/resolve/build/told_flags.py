"""What the classes of a file tell a flag of another: Attention(nx, scale) in a Block(nx, scale=True)."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from typing import Any

from scratch_transformer.kit.definitions import is_own, namespace_of, nodes_of, parameters_of
from scratch_transformer.kit.resolve.names.words import plain
from scratch_transformer.kit.syntax import is_open, last_name

SCALES = re.compile(r"(is|use|do|with)?(scaled?|scaling)(scores|attn|attention)?")
"""Whether scores are divided by √d_k: a flag without which a part is another one than its model has."""
MOST_DEEP = 4


def scales(cls: Any, parameter: inspect.Parameter) -> bool:
    """Whether all calls in its file tell such a flag, False by default, that it is True."""
    is_flag = parameter.default is False and SCALES.fullmatch(plain(parameter.name)) is not None
    return is_flag and set(_told(cls, parameter, 0)) == {True}


def _told(cls: Any, parameter: inspect.Parameter, depth: int) -> Iterator[Any]:
    names = [one.name for one in parameters_of(cls)]
    others = [one for one in namespace_of(cls).values() if isinstance(one, type) and is_own(one) and one is not cls]
    for other in others if depth < MOST_DEEP and parameter.name in names else ():
        for call in nodes_of(other, ast.Call):
            if last_name(call.func) == cls.__name__:
                place, named = names.index(parameter.name), {word.arg: word.value for word in call.keywords}
                given = named.get(parameter.name, call.args[place] if place < len(call.args) else None)
                yield from _values(other, given, None if is_open(call) else parameter.default, depth)


def _values(around: Any, given: ast.expr | None, default: Any, depth: int) -> Iterator[Any]:
    """What a call hands over; what the class around it is told, where it hands that on."""
    own = {one.name: one for one in parameters_of(around)}
    if given is None:
        yield default
    elif isinstance(given, ast.Name) and given.id in own:
        found = list(_told(around, own[given.id], depth + 1))
        yield from found or [own[given.id].default]
    else:
        yield given.value if isinstance(given, ast.Constant) else None
