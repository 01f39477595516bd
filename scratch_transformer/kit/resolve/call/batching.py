"""Functions of one sentence, or of one head: they are called once for each, and what they return is put together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from scratch_transformer.kit.kind import Inputs, Kind

ALONE = "one sentence at a time"
IN_A_BATCH = "a batch of one sentence"
"""Of a module that stops with more sentences than one in a batch: a mask of (B, T, T) beside scores of (B, h, T, T)."""
AXES: dict[str, tuple[int, ...]] = {
    ALONE: (0,),
    "one head at a time": (1,),
    "one sentence and one head at a time": (0, 1),
    "one vector at a time": (0, 1, 2),
    "one matrix at a time": (0, 1),
    IN_A_BATCH: (0,),
}
"""Order of dimensions -> the axes of a canonical tensor of which such a function takes one place at a time."""
LEFT_OUT = {order: axes for order, axes in AXES.items() if order != IN_A_BATCH}
"""And those that what it is given does not have."""
MASKS = ("mask", "memory_mask", "src_mask", "tgt_mask")


def orders(kind: Kind) -> tuple[str, ...]:
    """Those that make sense for a kind: only the attention core is given heads; a softmax, also of matrices."""
    if kind.name in ("softmax", "log_softmax"):
        return "one vector at a time", "one matrix at a time"
    if kind.name == "ScaledDotProductAttention":
        return tuple(AXES)[:3]
    return ALONE, IN_A_BATCH


def one_by_one(call: Callable[[Inputs], Tensor], inputs: Inputs, order: str) -> Tensor:
    """The outputs of all single sentences and heads, joined."""
    axes = AXES.get(order)
    if axes is None:
        return call(inputs)
    return _joined(call, inputs, list(axes))


def singles(inputs: Inputs, order: str) -> Iterator[Inputs]:
    """What the calls are given: single sentences and heads, or everything at once."""
    found = [inputs]
    for axis in AXES.get(order, ()):
        found = [one for several in found for one in _along(several, axis)]
    yield from found


def _joined(call: Callable[[Inputs], Tensor], inputs: Inputs, axes: list[int]) -> Tensor:
    if not axes:
        return call(inputs)
    return torch.cat([_joined(call, one, axes[1:]) for one in _along(inputs, axes[0])], axes[0])


def _along(inputs: Inputs, axis: int) -> Iterator[Inputs]:
    tensors = [value for name, value in inputs.items() if isinstance(value, Tensor) and name not in MASKS]
    for index in range(tensors[0].shape[axis]):
        yield {name: _narrowed(value, axis, index) for name, value in inputs.items()}


def _narrowed(value: Any, axis: int, index: int) -> Any:
    if not isinstance(value, Tensor) or value.dim() <= axis:
        return value
    return value if value.shape[axis] == 1 else value.narrow(axis, index, 1)


def without_axes(value: Tensor, order: str) -> Tensor:
    """A canonical tensor of one sentence and head as the function takes it."""
    for axis in reversed(LEFT_OUT.get(order, ())):
        value = value.squeeze(axis)
    return value


def with_axes(value: Tensor, order: str) -> Tensor:
    """The inverse."""
    for axis in LEFT_OUT.get(order, ()):
        value = value.unsqueeze(axis)
    return value
