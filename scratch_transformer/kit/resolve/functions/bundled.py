"""What draws as one object tells it, sample(logits, params: SamplingParams), as what is told each of its numbers."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
from typing import Any

from scratch_transformer.kit.definitions import nodes_of, parameters_of
from scratch_transformer.kit.resolve.functions.training import LOGITS, SAMPLING
from scratch_transformer.kit.resolve.names.words import plain

KNOWN = {name for names in SAMPLING.values() for name in names}


@functools.lru_cache(maxsize=1024)
def told_one_by_one(function: Any) -> Any:
    """A function of logits and of a dataclass of what to draw by, which is told what it reads; else as it is."""
    parameters = parameters_of(function) if inspect.isfunction(function) else []
    settings: Any = next((p for p in parameters[1:] if dataclasses.is_dataclass(p.annotation)), None)
    if settings is None or plain(parameters[0].name) not in LOGITS:
        return function
    known = [field for field in dataclasses.fields(settings.annotation) if plain(field.name) in KNOWN]
    read = _read(function, settings.name)
    taken = [field for field in known if not read or field.name in read]
    if not taken:
        return function

    @functools.wraps(function)
    def of_each(**told: Any) -> Any:
        own = {field.name: told.pop(field.name) for field in taken if field.name in told}
        return function(**told, **{settings.name: _made(settings.annotation, own)})

    own = [inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=_default(field)) for field in taken]
    others = [p.replace(kind=p.KEYWORD_ONLY) for p in parameters if p.name != settings.name]
    of_each.__signature__ = inspect.Signature([*others, *own])  # type: ignore[attr-defined]
    return of_each


def _read(function: Any, name: str) -> set[str]:
    """The fields of an argument that a function reads itself; none where it hands all of them on."""
    nodes = nodes_of(function)
    fields = [node for node in nodes if isinstance(node, ast.Attribute) and ast.unparse(node.value) == name]
    is_handed_on = sum(isinstance(node, ast.Name) and node.id == name for node in nodes) > len(fields)
    return set() if is_handed_on else {node.attr for node in fields}


def _default(field: Any) -> Any:
    return inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default


def _made(cls: Any, told: dict[str, Any]) -> Any:
    """An object of numbers: of those that must be told and say nothing of draws, one."""
    of_lists = (dataclasses.MISSING, dataclasses.MISSING)
    needed = [one.name for one in dataclasses.fields(cls) if (one.default, one.default_factory) == of_lists]
    return cls(**{**dict.fromkeys(needed, 1), **told})
