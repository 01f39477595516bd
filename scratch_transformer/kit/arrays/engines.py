"""Tensors of the learner's own that keep an array and its gradient: what computes with them, as what takes arrays."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from scratch_transformer.kit.arrays.libraries import libraries_of, own_tensors
from scratch_transformer.kit.arrays.places import boxed


@functools.lru_cache(maxsize=1024)
def engine_of(thing: Any) -> type | None:
    """The class of tensors that a class or function computes with, if they are made of arrays; None for any other."""
    found = next(iter(own_tensors(thing)), None)
    if found is None or libraries_of(found) != {"numpy"}:
        return None
    try:
        return found if boxed(found(np.zeros((1, 2)))) else None
    except Exception:  # the learner's code may raise anything
        return None


class Weight:
    """A weight as such an engine has it, for what takes steps or clips: data and grad are arrays."""

    def __init__(self, values: np.ndarray) -> None:
        self.data, self.grad, self.requires_grad = values, np.zeros_like(values), True

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    def zero_grad(self) -> None:
        self.grad = np.zeros_like(self.data)


def of_its_tensors(function: Callable[..., Any], engine: type | None) -> Callable[..., Any]:
    """The function, given arrays and giving arrays, which takes tensors of a class and gives them; as it is without.

    What are fractions are its tensors, and ids are arrays; else all or none of them are.
    """
    if engine is None:
        return function

    @functools.wraps(function)
    def of_arrays(*given: Any, **named: Any) -> Any:
        first: Exception | None = None
        for kinds in ("f", "fiub", ""):
            try:
                result = function(*_in(given, engine, kinds), **_in(named, engine, kinds))
            except Exception as error:  # it may take arrays where it was given its tensors
                first = first or error
            else:
                return _out(result, engine)
        assert first is not None
        raise first

    return of_arrays


def _in(value: Any, engine: type, kinds: str) -> Any:
    """With arrays of these kinds of numbers as tensors; a sublayer as a function of tensors."""
    if isinstance(value, np.ndarray) and value.dtype.kind in kinds:
        return engine(value)
    if isinstance(value, dict):
        return {name: _in(part, engine, kinds) for name, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_in(part, engine, kinds) for part in value)
    if inspect.isfunction(value):
        return lambda *given: _in(value(*_out(given, engine)), engine, kinds)
    return value


def _out(value: Any, engine: type) -> Any:
    """With the arrays of tensors in place of these."""
    if isinstance(value, engine):
        return vars(value)[boxed(value)]
    if isinstance(value, dict):
        return {name: _out(part, engine) for name, part in value.items()}
    return type(value)(_out(part, engine) for part in value) if type(value) in (list, tuple) else value
