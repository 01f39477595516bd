"""Classes of NumPy's arrays as classes of modules: `as_module` gives one that stands for the learner's.

Whoever reads its text, signature or methods reads the learner's. To make an instance is to make one of the learner's,
and a module around it: `module.py`.
"""

from __future__ import annotations

import functools
import inspect
import re
import types
from typing import Any

import numpy as np
from torch import nn

from scratch_transformer.kit.arrays.engines import engine_of
from scratch_transformer.kit.arrays.filling import filled
from scratch_transformer.kit.arrays.libraries import is_own_tensor, libraries_of, names_of, own_tensors
from scratch_transformer.kit.arrays.module import OfArrays, inner

FORWARDS = ("forward", "__call__", "call", "forward_pass", "feedforward", "feed_forward", "predict")
"""What computes the output, the likeliest first."""
BESIDE = ("encode", "decode", "project", "generate", "sample")
"""What a model may have besides, or in its place."""
BACKWARD = re.compile(r"^_?(backwards?(_?pass|_?propagation)?|back_?prop\w*|bwd|backforward)$", re.IGNORECASE)
STEPS = re.compile(r"schedul|optim|adam|sgd|warm_?up|token|vocab|dataset|loader|search|sampler", re.IGNORECASE)
"""In the name of what is called and has no output of layers."""


class Standing(type):
    """The class of classes that stand for a learner's: they are read as that, and to call one makes one of that."""

    of: type

    @property
    def __signature__(cls) -> inspect.Signature:
        return inspect.signature(cls.of)

    def __call__(cls, *given: Any, **named: Any) -> Any:
        np.random.seed(0)
        return filled(cls.of(*map(inner, given), **{name: inner(value) for name, value in named.items()}), as_module)


def as_module(thing: Any) -> Any:
    """The class of modules that stands for a class of NumPy's arrays; anything else as it is."""
    return _standing_for(thing) if isinstance(thing, type) else thing


def unwrapped(thing: Any) -> Any:
    """What is written in the learner's file: the class that another stands for, the function that a decorator has."""
    return thing.of if isinstance(thing, Standing) else inspect.unwrap(thing)


@functools.lru_cache(maxsize=1024)
def _standing_for(thing: Any) -> Any:
    forward = forward_of(thing)
    engine = engine_of(thing)
    if forward is None or libraries_of(thing) != {"numpy"} or (own_tensors(thing) and engine is None):
        return thing
    if any(map(is_own_tensor, thing.__mro__)):
        return thing
    methods = _reached(thing, "__init__", forward.__name__, *BESIDE)
    own = {name: function for name, function in methods.items() if name == "__init__" or not hasattr(nn.Module, name)}
    backward = next((name for name in dir(thing) if BACKWARD.match(name)), "")
    namespace = {
        **own,
        "forward": forward,
        "of": thing,
        "read": _read(_reached(thing, forward.__name__, *BESIDE)),
        "delegating": {name: OfArrays.delegating_to(name, one) for name, one in own.items() if name != "__init__"}
        | {"forward": OfArrays.delegating_to(forward.__name__, forward)},
        "backward_name": backward,
        "engine": engine,
        "__doc__": thing.__doc__,
        "__module__": thing.__module__,
        "__qualname__": thing.__qualname__,
    }
    return Standing(thing.__name__, (OfArrays,), namespace)


def forward_of(cls: type) -> types.FunctionType | None:
    """The method of a plain class that computes its output; None for one without, and for a module."""
    if issubclass(cls, (nn.Module, BaseException)) or inspect.isabstract(cls) or STEPS.search(cls.__name__):
        return None
    for name in FORWARDS:
        method = getattr(cls, name, None)
        if isinstance(method, types.FunctionType) and _computes(cls, method):
            return method
    return None


def _computes(cls: type, method: types.FunctionType) -> bool:
    """Whether a method takes an input; not one of a base, which leaves that to others: self.forward(*inputs)."""
    names = method.__code__.co_names
    is_left = "NotImplementedError" in names or ("forward" in names and not hasattr(cls, "forward"))
    return not is_left and any(p.kind is not p.VAR_POSITIONAL for p in list(_parameters(method))[1:])


def _parameters(method: types.FunctionType) -> list[inspect.Parameter]:
    return [p for p in inspect.signature(method).parameters.values() if p.kind is not p.VAR_KEYWORD]


def _reached(cls: type, *first: str) -> dict[str, types.FunctionType]:
    """Methods of these names, and those that they call: none that goes back, or changes weights."""
    members = {name: value for base in reversed(cls.__mro__[:-1]) for name, value in vars(base).items()}
    functions = {name: getattr(value, "__func__", value) for name, value in members.items()}
    functions = {name: one for name, one in functions.items() if isinstance(one, types.FunctionType)}
    found: dict[str, types.FunctionType] = {}
    waiting = [*first]
    while waiting:
        name = waiting.pop(0)
        if name in functions and name not in found and not BACKWARD.match(name):
            found[name] = functions[name]
            waiting += names_of(functions[name].__code__)
    return found


def _read(methods: dict[str, types.FunctionType]) -> frozenset[str]:
    """The names of attributes in what computes an output: weights are among them, an optimizer's moments are not."""
    return frozenset(name for one in methods.values() for name in names_of(one.__code__))
