"""Functions of NumPy arrays: tensors go in and come out as arrays."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor


def libraries(function: Any) -> set[str]:
    """ "numpy", "torch": what a function computes with, itself or in the functions of its module that it calls."""
    found = set()
    for one in reached(function):
        for name in _names(one.__code__):
            value = one.__globals__.get(name)
            module = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
            root = (module or "").partition(".")[0]
            if root in ("numpy", "torch"):
                found.add(root)
    return found or _of_module(inspect.unwrap(function))


def _of_module(function: Any) -> set[str]:
    """Of a function that only calls methods: x.std(-1, keepdims=True) is NumPy's; else what its module imports."""
    values = getattr(function, "__globals__", {}).values()
    found = {value.__name__ for value in values if isinstance(value, types.ModuleType)} & {"numpy", "torch"}
    words = [word for part in function.__code__.co_consts if isinstance(part, tuple) for word in part]
    return {"numpy"} if "numpy" in found and {"keepdims", "axis"} & {str(word) for word in words} else found


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
        others = [one.__globals__.get(name) for name in _names(one.__code__)]
        waiting += [other for other in others if getattr(other, "__module__", "") == one.__module__]


def _names(code: types.CodeType) -> set[str]:
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return set(code.co_names).union(*map(_names, inner))


def of_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its arguments turned into arrays, and what it returns into tensors."""

    @functools.wraps(function)
    def of_tensors(*given: Any, **named: Any) -> Any:
        with np.errstate(all="ignore"):
            return to_tensors(function(*map(_arrays, given), **{name: _arrays(value) for name, value in named.items()}))

    return of_tensors


def _arrays(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().cpu().numpy()
    if isinstance(value, dict):
        return type(value)({name: _arrays(part) for name, part in value.items()})
    if isinstance(value, (list, tuple)):
        return type(value)(map(_arrays, value))
    if inspect.isfunction(value):  # a sublayer
        return lambda *given: _arrays(value(*map(to_tensors, given)))
    return value


def to_tensors(value: Any) -> Any:
    """Arrays and numbers, within tuples and dictionaries too, as tensors."""
    if isinstance(value, (np.ndarray, np.generic, float)):
        return torch.as_tensor(value)
    if isinstance(value, dict):
        return {name: to_tensors(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)) and any(isinstance(part, (np.ndarray, dict, tuple)) for part in value):
        return type(value)(map(to_tensors, value))
    return value
