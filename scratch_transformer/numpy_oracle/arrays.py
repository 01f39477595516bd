"""What every component needs before its mathematics starts: float64 arrays, clear errors, named parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Cache = tuple[Any, ...]  # whatever a forward has to remember for its backward
Parameters = Mapping[str, Array]  # keyed as torch.nn's state_dict
Gradients = dict[str, Array]  # the same keys, the same shapes


def floats(**arrays: Any) -> tuple[Any, ...]:
    """Return the arrays as float64, in the order given; None stays None.

    Raises:
        TypeError: an array does not hold real numbers.
    """

    def convert(name: str, value: Any) -> Array | None:
        if value is None:
            return None
        array = np.asarray(value)
        if array.dtype.kind not in "fiu":
            raise TypeError(f"{name} must hold real numbers, but its dtype is {array.dtype}")
        return array.astype(np.float64, copy=False)

    return tuple(convert(name, value) for name, value in arrays.items())


def require(condition: bool, message: str) -> None:
    """Raise ValueError(message) unless the condition holds."""
    if not condition:
        raise ValueError(message)


def parameter(parameters: Parameters, key: str) -> Array:
    """Return `parameters[key]`.

    Raises:
        KeyError: there is none; the message lists the keys that exist.
    """
    if key not in parameters:
        raise KeyError(f"parameter {key!r} is missing; given are {sorted(parameters)}")
    return parameters[key]


def scope(named: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the entries of the submodule `name` under its own keys: scope({"a.weight": w}, "a") is {"weight": w}.

    An entry called exactly `name` belongs to the submodule itself and gets the key "" (only keep-masks have such).
    """
    inner = {key[len(name) + 1 :]: value for key, value in named.items() if key.startswith(name + ".")}
    return inner | ({"": named[name]} if name in named else {})


def prefixed(name: str, named: Mapping[str, Any]) -> dict[str, Any]:
    """Undo `scope`: put the submodule's name before every key, and drop the entries that are None."""
    return {f"{name}.{key}": value for key, value in named.items() if value is not None}


def sum_to(gradient: Array, shape: tuple[int, ...]) -> Array:
    """Undo broadcasting: y = broadcast(x) copies each element of x, so dx sums dy over the copies.

    Args:
        gradient: dy, of a shape to which `shape` broadcasts.
        shape: the shape of x.
    """
    copies = tuple(range(gradient.ndim - len(shape)))
    summed = gradient.sum(axis=copies)
    stretched = tuple(axis for axis, size in enumerate(shape) if size == 1 and summed.shape[axis] != 1)
    return summed.sum(axis=stretched, keepdims=True)
