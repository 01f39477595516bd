"""Masks that are made for every head anew, all alike: functions that are told how many there are."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from torch import Tensor

from scratch_transformer.kit.definitions import parameters_of
from scratch_transformer.kit.kinds.inputs import HEADS
from scratch_transformer.kit.resolve.names.settings import settings_of
from scratch_transformer.kit.resolve.names.words import plain


def for_one(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with a number of heads, and with one head's mask in place of all of them, if they are alike.

    Itself, if it takes no such number.
    """
    told = [p.name for p in parameters_of(function) if is_of_heads(p.name)]
    if not told:
        return function

    @functools.wraps(function)
    def of_a_head(*given: Any, **named: Any) -> Any:
        return _first_of(function(*given, **dict.fromkeys(told, HEADS), **named))

    signature = inspect.signature(function)
    left = [p for p in signature.parameters.values() if p.name not in told]
    of_a_head.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
    return of_a_head


def is_of_heads(name: str) -> bool:
    """Whether a parameter says how many heads there are."""
    return settings_of(name)[:1] == ("num_heads",) and "head" in plain(name)


def _first_of(mask: Any) -> Any:
    """Of (heads, length, length) and (batch, heads, length, length) that of the first head."""
    axis = mask.dim() - 3 if isinstance(mask, Tensor) and mask.dim() > 2 else None
    if axis is None or mask.shape[axis] != HEADS:
        return mask
    first = mask.narrow(axis, 0, 1)
    return first.squeeze(axis) if mask.equal(first.expand_as(mask)) else mask
