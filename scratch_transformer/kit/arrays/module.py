"""An instance of a learner's class of NumPy's arrays as a module: its arrays are parameters, its parts are modules."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils._pytree import tree_map

from scratch_transformer.kit.arrays.backward import Pass, differentiable, training_flags
from scratch_transformer.kit.arrays.engines import of_its_tensors
from scratch_transformer.kit.arrays.places import Place, written
from scratch_transformer.kit.arrays.turning import run, to_arrays, to_tensors


class Group(nn.Module):
    """Arrays that are kept under one name: a list of them, or a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self._places: list[Place] = []
        """Where its arrays are in the learner's instance, in the order of its parameters and buffers."""


class OfArrays(Group):
    """made: the learner's instance. of: its class. read: the names of what its output depends on.

    rates: the attributes of the instance that say how much it drops -> their values.
    delegating: methods of its own -> functions that call them with tensors. backward_name: of the one that goes back.
    engine: the class of the learner's own tensors that it computes with.
    """

    of: type
    read: frozenset[str]
    delegating: Mapping[str, Callable[..., Any]]
    backward_name: str
    engine: type | None
    made: Any
    rates: dict[str, float]

    @classmethod
    def around(cls, made: Any) -> OfArrays:
        """A module without parameters yet around an instance."""
        module: OfArrays = cls.__new__(cls)
        Group.__init__(module)
        vars(module).update(made=made, rates={}, _passes=[])
        return module

    @staticmethod
    def delegating_to(name: str, method: types.FunctionType) -> Callable[..., Any]:
        """A method of modules that calls a method of this name of the learner's instance."""

        @functools.wraps(method)
        def delegating(self: OfArrays, *given: Any, **named: Any) -> Any:
            return self._computed(name, given, named)

        return delegating

    def __getattribute__(self, name: str) -> Any:
        delegating = type(self).delegating
        if name in delegating and name not in super().__getattribute__("__dict__"):
            return types.MethodType(delegating[name], self)
        return super().__getattribute__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Numbers and words are the instance's too: eps, training."""
        super().__setattr__(name, value)
        made = vars(self).get("made")
        if isinstance(value, (bool, int, float, str)) and made is not None and name in vars(made):
            setattr(made, name, value)

    def train(self, mode: bool = True) -> OfArrays:
        """Drops in training alone: what else is computed is compared without that."""
        super().train(mode)
        for name, rate in self.rates.items():
            vars(self.made)[name] = rate if mode else 0.0
        return self

    def _computed(self, name: str, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        self.write()
        if self.training:
            named = {**named, **training_flags(getattr(self.made, name))}
        if torch.is_grad_enabled() and self.backward_name:
            return differentiable(self, name, given, named)
        method = of_its_tensors(getattr(self.made, name), self.engine)
        result = run(method, to_arrays(tuple(map(inner, given))), to_arrays(named))
        # of their own: what is returned may share its memory with the weights
        return tree_map(lambda one: one.clone() if isinstance(one, torch.Tensor) else one, to_tensors(result))

    def write(self) -> None:
        """Puts the values of all parameters into the arrays."""
        for part in self.modules():
            if isinstance(part, Group):
                written(part, part._places)

    def listen(self) -> list[Pass]:
        """What every backward pass leaves behind from now on, in a list that grows."""
        heard: list[Pass] = []
        vars(self)["_passes"] = heard
        return heard

    def heard(self, one: Pass) -> None:
        vars(self)["_passes"].append(one)


def roots_of(module: nn.Module | None) -> Iterator[OfArrays]:
    """The modules of arrays in a module that are no parts of others."""
    if isinstance(module, OfArrays):
        yield module
    elif module is not None:
        for part in module.children():
            yield from roots_of(part)


def inner(value: Any) -> Any:
    """The learner's instances in place of the modules around them, NumPy's types in place of torch's.

    Of what a constructor or a method is given.
    """
    if value is torch.float64:
        return np.float64
    if isinstance(value, OfArrays):
        return value.made
    if isinstance(value, (list, tuple, nn.ModuleList)):
        return (tuple if isinstance(value, tuple) else list)(map(inner, value))
    return value
