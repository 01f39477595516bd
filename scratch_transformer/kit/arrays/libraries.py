"""Which library a function or a class computes with: NumPy or torch."""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Iterator
from typing import Any

LIBRARIES = ("numpy", "torch")


def libraries(function: Any) -> set[str]:
    """ "numpy", "torch": what a function computes with, itself or in the functions of its module that it calls."""
    found = set()
    for one in reached(function):
        found |= {root for value in _named(one) if (root := _root(value)) in LIBRARIES}
    if found == {"numpy"} and {"dim", "keepdim"} & _words(inspect.unwrap(function)):
        found |= _imported(inspect.unwrap(function).__globals__)  # np.e ** x may be a tensor: (…).sum(dim=1)
    return found or _of_module(inspect.unwrap(function))


@functools.lru_cache(maxsize=1024)
def libraries_of(cls: type) -> frozenset[str]:
    """The same of a class: of its methods, and of the learner's classes and functions that they name, in any file."""
    found: set[str] = set()
    for function in _functions_of(cls):
        for value in _named(function):
            if (root := _root(value)) in LIBRARIES:
                found.add(root)
    return frozenset(found or _imported(vars(sys.modules.get(cls.__module__, types.ModuleType("none")))))


@functools.lru_cache(maxsize=1024)
def own_tensors(thing: Any) -> list[type]:
    """The tensors of the learner's own that a class or function computes with, which keep their gradient."""
    lineage = thing.__mro__ if isinstance(thing, type) else ()
    owners = [owner for function in _functions_of(thing) for owner in (*_named(function), *_annotated(function))]
    return [one for one in dict.fromkeys((*lineage, *filter(is_own_tensor, owners))) if is_own_tensor(one)]


def _annotated(function: types.FunctionType) -> Iterator[Any]:
    """What a function's arguments are said to be, by the names of classes."""
    for said in getattr(function, "__annotations__", {}).values():
        yield function.__globals__.get(said.strip("'\"")) if isinstance(said, str) else said


def is_own_tensor(cls: Any) -> bool:
    """Whether a class is such a tensor, and none of torch's: a + b is one again."""
    return isinstance(cls, type) and {"__add__", "backward"} <= vars(cls).keys() and _root(cls) not in LIBRARIES


def _functions_of(thing: Any) -> Iterator[types.FunctionType]:
    """A function or the methods of a class, and all functions and methods of the learner's that they lead to."""
    waiting: list[Any] = [thing]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if id(one) in seen or _root(one) in (*LIBRARIES, *sys.stdlib_module_names):
            continue
        seen.add(id(one))
        if isinstance(one, type):
            waiting += [getattr(member, "__func__", member) for base in one.__mro__ for member in vars(base).values()]
        elif isinstance(one, types.FunctionType):
            yield one
            waiting += [other for other in _named(one) if isinstance(other, (type, types.FunctionType))]


def _named(function: types.FunctionType) -> Iterator[Any]:
    """The values of the globals that a function names, and of those in the learner's modules among them."""
    names = names_of(function.__code__)
    for name in names:
        value = function.__globals__.get(name)
        yield value
        if isinstance(value, types.ModuleType) and _root(value) not in (*LIBRARIES, *sys.stdlib_module_names):
            yield from (vars(value).get(inner) for inner in names)


def _root(value: Any) -> str:
    """The package that something is of."""
    module = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
    return module.partition(".")[0] if isinstance(module, str) else ""


def _of_module(function: Any) -> set[str]:
    """Of a function that only calls methods: x.std(-1, keepdims=True) is NumPy's; else what its module imports."""
    found = _imported(getattr(function, "__globals__", {}))
    return {"numpy"} if "numpy" in found and {"keepdims", "axis"} & _words(function) else found


def _words(function: Any) -> set[str]:
    """The names by which a function gives arguments, as far as its code tells: x.sum(dim=1, keepdim=True)."""
    return {str(word) for part in function.__code__.co_consts if isinstance(part, tuple) for word in part}


def _imported(namespace: dict[str, Any]) -> set[str]:
    return {value.__name__ for value in namespace.values() if isinstance(value, types.ModuleType)} & {*LIBRARIES}


def reached(function: Any) -> Iterator[types.FunctionType]:
    """A function, and all functions of the learner's that it calls, directly or not."""
    seen: set[int] = set()
    waiting = [inspect.unwrap(function)]
    while waiting:
        one = waiting.pop()
        if not isinstance(one, types.FunctionType) or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        others = [one.__globals__.get(name) for name in names_of(one.__code__)]
        waiting += [other for other in others if getattr(other, "__module__", "") == one.__module__]


def names_of(code: types.CodeType) -> list[str]:
    """The globals and attributes that code names, with the functions inside it, each once."""
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return [*dict.fromkeys((*code.co_names, *(name for one in inner for name in names_of(one))))]
