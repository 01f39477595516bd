"""Tensors as arrays and arrays as tensors, around what computes with NumPy."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor


def of_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its arguments turned into arrays, and what it returns into tensors."""

    @functools.wraps(function)
    def of_tensors(*given: Any, **named: Any) -> Any:
        return to_tensors(run(function, to_arrays(given), to_arrays(named)))

    return of_tensors


def run(function: Callable[..., Any], given: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """What a function returns, without NumPy's warnings of what overflows."""
    with np.errstate(all="ignore"):
        return function(*given, **named)


def to_arrays(value: Any) -> Any:
    """Tensors, within tuples and dictionaries too, as arrays; a sublayer as a function of arrays."""
    if isinstance(value, Tensor):
        return value.detach().cpu().numpy()
    if isinstance(value, dict):
        return type(value)({name: to_arrays(part) for name, part in value.items()})
    if isinstance(value, (list, tuple)):
        return type(value)(map(to_arrays, value))
    if inspect.isfunction(value):  # a sublayer
        return lambda *given: to_arrays(value(*map(to_tensors, given)))
    return value


def to_tensors(value: Any) -> Any:
    """Arrays and numbers, within tuples and dictionaries too, as tensors."""
    if isinstance(value, np.ndarray):
        return torch.as_tensor(value if all(step >= 0 for step in value.strides) else value.copy())
    if isinstance(value, (np.generic, float)):
        return torch.as_tensor(value)
    if isinstance(value, dict):
        return {name: to_tensors(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)) and any(isinstance(part, (np.ndarray, dict, tuple)) for part in value):
        return type(value)(map(to_tensors, value))
    return value
