"""What a learner's model gives where that is no tensor, but an object or a dictionary: model(ids).logits."""

from __future__ import annotations

import ast
import builtins
import inspect
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

from torch import Tensor, nn

from scratch_transformer.kit.definitions import is_module_class, nodes_of
from scratch_transformer.kit.syntax import Function, is_text

SCORES = re.compile(r"logit|score|pred|prob|^outp?u?t?$|^y_?hat$")
CACHES = re.compile(r"cache|past|kv|present")
KEPT = re.compile(rf"{CACHES.pattern}|state|hidden|att|weight")
"""What is given beside the scores and is more than a number: no toy gives that."""


class Made(NamedTuple):
    """What a forward returns. cls: the class of the object, dict for a dictionary. fields: its own, in order.

    place: where it stands in a pair, return {"logits": logits}, loss; None alone.
    """

    cls: type
    fields: tuple[str, ...]
    place: int | None = None

    @property
    def scores(self) -> str:
        return next(name for name in self.fields if SCORES.search(name.lower()))

    @property
    def fix(self) -> str:
        """How the scores are taken out of it."""
        if self.cls is tuple:
            return f"{', '.join(self.fields)} = self(ids)."
        given = "self(ids)" if self.place is None else f"self(ids)[{self.place}]"
        return f'logits = {given}["{self.scores}"].' if self.cls is dict else f"logits = {given}.{self.scores}."

    def __call__(self, logits: Tensor, past: Any = None) -> Any:
        """It, with logits where its scores are, what stands for keys and values where these are, and nothing else."""
        if self.place is not None:
            own = self._replace(place=None)(logits, past)
            return (own, None) if self.place == 0 else (None, own)
        kept = {name: past if CACHES.search(name.lower()) else None for name in self.fields}
        values = kept | {self.scores: logits}
        if self.cls is tuple:
            return tuple(values.values())
        if issubclass(self.cls, (dict, tuple)):
            return self.cls(**values)
        thing: Any = type(self.cls.__name__, (_Several if hasattr(self.cls, "__getitem__") else _Object,), {})
        return thing(values)


class _Object:
    """Stands for an object of a learner's class: types of its fields are none of the toy's affair."""

    def __init__(self, values: dict[str, Any]) -> None:
        vars(self).update(values)


class _Several(_Object):
    """The same of a class whose objects are read by names and numbers, too, as those of a library's models are."""

    def __getitem__(self, key: Any) -> Any:
        there = [value for value in vars(self).values() if value is not None]
        return vars(self)[key] if isinstance(key, str) else there[key]


def of_writer(function: Any) -> Made | None:
    """What the model of a method gives, or that of a function, of whose file one model alone gives such; else None.

    Of a file without any model it is a library's, which gives what is read of it.
    """
    if not inspect.isfunction(function):
        return None
    read = {*function.__code__.co_names, *map(str, function.__code__.co_consts)}
    owner = getattr(function, "owner", None)
    if owner is not None:
        return _returned(owner, read)
    values = vars(inspect.getmodule(function) or builtins).values()
    models = [v for v in values if is_module_class(v) and v.__module__ == function.__module__]
    if not models:
        return _read_of_a_call(function)
    made = [one for one in (_returned(model, read) for model in models) if one is not None]
    return made[0] if len({*made}) == 1 and read & {*made[0].fields} else None


def _read_of_a_call(function: Any) -> Made | None:
    """The scores that a function reads of what its model gives, model(ids).logits, and what else it reads of that."""
    nodes, taken = nodes_of(function), {*inspect.signature(function).parameters}
    calls = [n for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in taken]
    given = [n for n in nodes if isinstance(n, ast.Assign) and any(n.value is call for call in calls)]
    names = {ast.unparse(target) for one in given for target in one.targets}
    read = [
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute)
        and not hasattr(Tensor, node.attr)
        and (any(node.value is call for call in calls) or ast.unparse(node.value) in names)
    ]
    fields = tuple(dict.fromkeys(read))
    return Made(SimpleNamespace, fields) if any(SCORES.search(name.lower()) for name in fields) else None


def _returned(owner: type, read: set[str]) -> Made | None:
    """The one thing that all of a class's forward returns, if it has scores and is no tensor.

    Of several that of which a writer reads the scores by their name. read: all names that it reads.
    """
    forward = getattr(owner, "forward", None)
    if not inspect.isfunction(forward):
        return None
    nodes = nodes_of(forward)
    if any(isinstance(node, (Function, ast.Lambda)) for node in nodes[1:]):  # they return, too
        return None
    found = {
        _made(value, nodes, forward) for node in nodes if isinstance(node, ast.Return) for value in _given(node, nodes)
    }
    scored = [one for one in found if one is not None and any(SCORES.search(name.lower()) for name in one.fields)]
    if len(found) > 1:  # if not return_dict: return (logits,)
        scored = [one for one in scored if one.cls is not tuple and one.scores in read]
    return scored[0] if len(scored) == 1 else None


def _given(node: ast.Return, nodes: list[ast.AST]) -> Iterator[ast.expr | None]:
    """What is returned; where that is a name, all that it is assigned."""
    if not isinstance(node.value, ast.Name):
        yield node.value
        return
    yield from _values_of(node.value.id, nodes) or (None,)


def _values_of(name: str, nodes: list[ast.AST]) -> list[ast.expr]:
    return [n.value for n in nodes if isinstance(n, ast.Assign) and name in map(ast.unparse, n.targets)]


def _assigned(elements: list[ast.expr], nodes: list[ast.AST]) -> list[ast.expr]:
    """The same elements, in place of names the one dictionary that they are."""
    given = [_values_of(one.id, nodes) if isinstance(one, ast.Name) else [] for one in elements]
    is_one = [len(values) == 1 and isinstance(values[0], ast.Dict) for values in given]
    return [values[0] if fits else one for one, values, fits in zip(elements, given, is_one, strict=True)]


def _made(value: ast.expr | None, nodes: list[ast.AST], forward: Any) -> Made | None:
    """A dictionary of names, or the object of a class by its name."""
    if isinstance(value, ast.Dict):
        keys = [key.value for key in value.keys if is_text(key)]
        return Made(dict, tuple(keys)) if keys and len(keys) == len(value.keys) else None
    if isinstance(value, ast.Tuple):
        names = tuple(one.id for one in value.elts if isinstance(one, ast.Name))
        within = [_made(one, nodes, forward) for one in _assigned(value.elts, nodes)]
        kept = [made for made in within if made is not None and made.cls is not tuple]
        if len(within) == 2 and len(kept) == 1:
            return kept[0]._replace(place=within.index(kept[0]))
        is_short = len(names) == len(value.elts) == 2 and not any(map(KEPT.search, names))
        return Made(tuple, names) if is_short else None
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name):
        return None
    cls = forward.__globals__.get(value.func.id, getattr(builtins, value.func.id, None))
    told = [word.arg for word in value.keywords if word.arg is not None]
    if cls is dict:
        return Made(dict, tuple(told)) if told and not value.args else None
    if not isinstance(cls, type) or issubclass(cls, (Tensor, nn.Module)) or cls.__module__ == "builtins":
        return None
    own = [] if told and issubclass(cls, dict) else inspect.get_annotations(cls)  # of a library's, some are aliases
    names = tuple(dict.fromkeys([*own, *_taken(cls)[: len(value.args)], *told]))
    return Made(cls, names)


def _taken(cls: type) -> list[str]:
    """The parameters of a class's constructor, which it may be given without their names."""
    try:
        return list(inspect.signature(cls).parameters)
    except (TypeError, ValueError):
        return []
