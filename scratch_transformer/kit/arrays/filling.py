"""Makes modules of a learner's instance and of its parts: which of its arrays are weights, and which are tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

from scratch_transformer.kit.arrays.module import Group, OfArrays
from scratch_transformer.kit.arrays.places import Place, boxed

DROPS = re.compile(r"^(\w+_)?drop(out)?(_?(p|prob|probability|rate|ratio))?$", re.IGNORECASE)
RATES = re.compile(r"^(p|prob|rate|ratio|dropout\w*|drop\w*)$", re.IGNORECASE)
"""The same in a class of dropout."""
FEW = 2
"""Different numbers that a mask has at most."""


def filled(made: Any, standing_for: Callable[[type], type]) -> Any:
    """The module around an instance; the instance itself if its class is no class of arrays.

    standing_for: gives the class of modules that stands for a class, or the class itself.
    """
    return _Filling(standing_for).module(made)


class _Filling:
    """For one instance and its parts: what is there twice becomes one parameter, or one module."""

    def __init__(self, standing_for: Callable[[type], Any]) -> None:
        self._standing_for = standing_for
        self._raised: dict[int, tuple[Any, Any]] = {}
        """The array in double precision by the id of the learner's, which is kept too, so that no id is given again."""
        self._tensors: dict[int, torch.Tensor] = {}
        self._modules: dict[int, Any] = {}

    def module(self, made: Any) -> Any:
        cls = self._standing_for(type(made))
        if id(made) in self._modules or cls is type(made):
            return self._modules.get(id(made), made)
        module = self._modules[id(made)] = cls.around(made)
        for name, value in list(vars(made).items()):
            value = self._double(value)
            vars(made)[name] = value
            is_rate = DROPS.match(name) or (RATES.match(name) and "drop" in type(made).__name__.lower())
            if is_rate and isinstance(value, float) and 0.0 < value < 1.0:
                module.rates[name] = value
            if isinstance(value, (bool, int, float, str)) and not hasattr(nn.Module, name):
                vars(module)[name] = value
            elif name in cls.read:
                self._attribute(module, name, value, made)
        return module.eval()

    def _attribute(self, module: Group, name: str, value: Any, owner: Any) -> None:
        if isinstance(value, dict) and not self._has_parts(value.values()):
            for key, part in value.items():  # self.params = {"W": …}
                self._put(module, str(key), part, value, key)
        elif _is_matrix(value) and _is_beside_matrices(value, owner):  # in its turn, as those are
            module._modules[name] = group = Group()
            self._put(group, "weight", value, owner, name)
        else:
            self._put(module, name, value, owner, name)

    def _put(self, module: Group, name: str, value: Any, owner: Any, key: Any) -> None:
        """What is kept under a name, as a parameter, a buffer or a module of this name."""
        name = name.replace(".", "_")
        if isinstance(value, (list, tuple)) and value and all(_is_in(one, module) for one in value):
            return  # self.params = [self.W, self.b]
        if isinstance(value, np.ndarray):
            if value.dtype.kind == "f" and value.ndim:
                self._array(module, name, Place(name, value, owner, key))
        elif isinstance(value, (list, tuple)) and self._has_parts(value):
            module._modules[name] = nn.ModuleList(one for one in map(self.module, value) if isinstance(one, nn.Module))
        elif isinstance(value, dict) and self._has_parts(value.values()):
            parts = {str(at).replace(".", "_"): self.module(part) for at, part in value.items()}
            module._modules[name] = group = nn.Module()
            group._modules.update({at: part for at, part in parts.items() if isinstance(part, nn.Module)})
        elif _are_matrices(value):
            groups = [Group() for _ in value]
            module._modules[name] = nn.ModuleList(groups)
            for at, group in enumerate(groups):
                self._put(group, "weight", value[at], value, at)
        elif isinstance(value, (list, tuple, dict)):
            group = Group()
            for at, part in value.items() if isinstance(value, dict) else enumerate(value):
                self._put(group, str(at), part, value, at)
            if group._parameters or group._buffers or group._modules:
                module._modules[name] = group
        elif not self._has_parts([value]) and (key := boxed(value)):
            # self.W = Parameter(np.random.randn(…)), with self.W.data and self.W.grad
            vars(value).update({at: self._double(one) for at, one in vars(value).items()})
            self._put(module, name, vars(value)[key], value, key)
        elif isinstance(part := self.module(value) if hasattr(value, "__dict__") else None, nn.Module):
            module._modules[name] = part
        elif hasattr(value, "__iter__") and (lists := self._lists_of_parts(value)):
            self._put(module, name, lists[0], value, key)  # self.blocks = ModuleList([…]), a class of the learner's

    def _has_parts(self, values: Iterable[Any]) -> bool:
        """Whether any of them is an instance of a class of arrays."""
        return any(self._standing_for(type(one)) is not type(one) for one in values)

    def _lists_of_parts(self, value: Any) -> list[Any]:
        """The lists of parts that an object keeps."""
        kept = getattr(value, "__dict__", {}).values()
        return [one for one in kept if isinstance(one, (list, tuple)) and self._has_parts(one)]

    def _array(self, module: Group, name: str, place: Place) -> None:
        array = place.array
        if _is_in(array, module):
            return  # self.params = {"W": self.W}
        if id(array) not in self._tensors:
            values = torch.from_numpy(array.copy())
            self._tensors[id(array)] = values if _is_computed(array) else nn.Parameter(values)
        tensor = self._tensors[id(array)]
        if isinstance(tensor, nn.Parameter):
            module._parameters[name] = tensor
            module._places.append(place)
        else:
            module._buffers[name] = tensor

    def _double(self, value: Any) -> Any:
        """The same with arrays in double precision; lists and dictionaries stay the ones that they are."""
        if value is np.float32 or value is np.float16:
            return np.float64
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            is_free = value.dtype == np.float64 and value.flags.writeable
            return self._raised.setdefault(id(value), (value, value if is_free else value.astype(np.float64)))[1]
        if isinstance(value, np.floating):
            return float(value)
        if type(value) is dict:
            value.update({key: self._double(part) for key, part in value.items()})
        elif type(value) is list:
            value[:] = map(self._double, value)
        elif type(value) is tuple:
            return tuple(map(self._double, value))
        return value


def _is_in(value: Any, module: Group) -> bool:
    """Whether a module has an array, or its box, already, not counting those of its parts: two may share one."""
    return any(value is place.array or value is place.owner for place in _places_of(module))


def _places_of(module: nn.Module) -> Iterator[Place]:
    yield from getattr(module, "_places", ())
    for part in module.children():
        if not isinstance(part, OfArrays):
            yield from _places_of(part)


def _is_matrix(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.ndim == 2


def _are_matrices(value: Any) -> bool:
    """Whether it is a list of matrices alone: self.linears = [np.random.randn(d, d) for _ in range(4)]."""
    return isinstance(value, (list, tuple)) and bool(value) and all(map(_is_matrix, value))


def _is_beside_matrices(value: Any, owner: Any) -> bool:
    """Whether it is a matrix of weights, and its instance keeps a list of others."""
    lists = filter(_are_matrices, vars(owner).values())
    return not _is_computed(value) and any(all(one is not value for one in matrices) for matrices in lists)


def _is_computed(array: np.ndarray) -> bool:
    """A table or a mask, no weights: those are drawn at random, or are all one number.

    Angles' frequencies fall or rise; a mask has two numbers; rows of sines begin with 0 and 1 and are like the next.
    """
    if array.ndim == 1:
        steps = np.diff(array)
        return bool(len(steps) > FEW and ((steps > 0).all() or (steps < 0).all()))
    if array.size > 1 and len(np.unique(array)) == FEW:
        return True
    rows = array.reshape(-1, array.shape[-1])
    if len(rows) < FEW or not np.isin(rows[0], (0.0, 1.0)).all() or (rows == rows[0]).all():
        return False
    lengths = np.linalg.norm(rows[1:], axis=-1)
    alike = (rows[1:-1] * rows[2:]).sum(-1) / np.maximum(lengths[:-1] * lengths[1:], 1e-30)
    return bool(len(alike)) and float(alike.mean()) > 0.5
