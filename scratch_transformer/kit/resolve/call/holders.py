"""Caches that are objects: of a learner's own class, one or one for every layer, or lists or dictionaries that fill."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from torch import Tensor, nn

from scratch_transformer.kit.definitions import is_module_class, is_own, namespace_of, parameters_of, source_of
from scratch_transformer.kit.resolve.build import construct
from scratch_transformer.kit.resolve.names.words import plain

NAMED = re.compile(r"cache$|^cache|^keyvalues?$|^kv(store|state|memory)?$")
COUNTS = re.compile(r"pos|len|offset|seen|index|idx|cursor|start|cur|filled|used|tokens|^t$|^size$|^end$")
"""Of what says how many tokens a cache holds."""
SAMPLES = re.compile(r"B|bs|bsz|n?_?batch(es)?")
"""A parameter for how many sentences it holds, besides batch_size."""
ADVANCES = re.compile(r"^(advance|increment|move|step)")
SEVERAL = re.compile(r"\b(list|tuple|sequence)\b", re.IGNORECASE)
Make = Callable[[], Any]


def makers(made: nn.Module, parameter: inspect.Parameter, settings: Mapping[str, Any]) -> Iterator[Make]:
    """Ways to make what a forward is given to keep keys and values in, for one sentence; the likeliest first."""
    said = "" if parameter.annotation is parameter.empty else _text(parameter.annotation)
    namespace = namespace_of(type(made))
    count = settings.get("num_layers", 0)
    for cls in _classes(namespace, said):
        if not SEVERAL.search(said):
            yield partial(_made, cls, settings, namespace)
            if settings.get("num_kv_heads", settings.get("num_heads")) != settings.get("num_heads"):
                width = settings["d_model"] // settings["num_heads"]
                shared = {**settings, "num_heads": settings["num_kv_heads"], "d_k": settings.get("d_k", width)}
                yield partial(_made, cls, shared, namespace)
        if count:
            yield partial(_one_each, count, cls, {**settings, "num_layers": 1}, namespace)
    if not said or re.search(r"dict", said, re.IGNORECASE):
        yield dict
    if count and (not said or SEVERAL.search(said)):
        yield lambda: [None] * count  # to be put in: cache[i] = (k, v)
        yield partial(_empty_each, count)


def advance(holder: Any, before: Mapping[str, int], length: int) -> None:
    """So many tokens more, of what leaves it to whoever calls it to count them."""
    for one in holder if isinstance(holder, list) else [holder]:
        method = next((n for n in dir(one) if ADVANCES.match(n) and callable(getattr(one, n))), "")
        if method:
            getattr(one, method)(length)
        for name, number in before.items():
            if not method and getattr(one, name, None) == number:
                setattr(one, name, number + length)


def counted(holder: Any) -> dict[str, int]:
    """The numbers of a cache by which it may count its tokens: attribute -> value."""
    one = holder[0] if isinstance(holder, list) and holder else holder
    own = vars(one) if hasattr(one, "__dict__") else {}
    return {name: value for name, value in own.items() if type(value) is int and COUNTS.search(plain(name))}


def state(holder: Any) -> Any:
    """What a cache holds, to be compared: numbers, and sums of tensors."""
    if isinstance(holder, Tensor):
        return tuple(holder.shape), float(holder.double().abs().sum())
    if isinstance(holder, Mapping):
        return {name: state(value) for name, value in holder.items()}
    if isinstance(holder, (list, tuple)):
        return [state(value) for value in holder]
    return state(vars(holder)) if hasattr(holder, "__dict__") and not isinstance(holder, type) else holder


def _text(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else f"{getattr(annotation, '__name__', '')} {annotation}"


def asks_for_a_class(module: types.ModuleType) -> bool:
    """Whether a file has a forward that takes a cache and reads an attribute of it, cache.length, and no such class."""
    own = [cls for cls in vars(module).values() if is_module_class(cls) and cls.__module__ == module.__name__]
    taken = [(cls, p.name) for cls in own for p in parameters_of(cls.forward) if NAMED.search(plain(p.name))]
    is_read = any(re.search(rf"\b{name}\.[a-z]", source_of(cls.forward)) for cls, name in taken)
    return is_read and not _classes(vars(module), "")


def _classes(namespace: Mapping[str, Any], said: str) -> list[type]:
    """Those that an annotation names; else those that are called caches."""
    own = [c for c in namespace.values() if isinstance(c, type) and is_own(c)]
    named = [cls for cls in own if re.search(rf"\b{cls.__name__}\b", said)]
    called = [cls for cls in own if NAMED.search(plain(cls.__name__)) and not hasattr(cls, "forward")]
    return named or ([] if re.search("Tensor|dict", said, re.IGNORECASE) else called)


def _empty_each(count: int) -> list[dict[Any, Any]]:
    return [{} for _ in range(count)]


def _one_each(count: int, cls: type, settings: Mapping[str, Any], namespace: Mapping[str, Any]) -> list[Any]:
    return [_made(cls, settings, namespace) for _ in range(count)]


def _made(cls: type, settings: Mapping[str, Any], namespace: Mapping[str, Any]) -> Any:
    for attempt in construct.attempts(cls, {"num_layers": 1, **settings, "batch": 1}, namespace, lambda name: [], {}):
        samples = {name: 1 for name in attempt.args if SAMPLES.fullmatch(name)}
        return replace(attempt, args={**attempt.args, **samples}).build()
    raise TypeError(f"{cls.__name__} cannot be built")
