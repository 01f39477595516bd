"""Runs a learner's code in float64 on the CPU, whatever it casts to, without dropout that ignores eval().

Masks of bytes, which PyTorch refuses today, do what they did when that code was written, and are noted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

SOFTMAX = frozenset((torch.softmax, Tensor.softmax, torch.nn.functional.softmax))
LOW = (torch.float32, torch.float16, torch.bfloat16)
CASTS = (Tensor.float, Tensor.half, Tensor.bfloat16)
ATTENDS = torch.nn.functional.scaled_dot_product_attention
OF_ATTENTION = 4
"""Its arguments before the share that is dropped."""
DROPOUTS = frozenset((torch.nn.functional.dropout, torch.dropout, ATTENDS))
MOVES = (Tensor.cuda,)
MASKED = (Tensor.masked_fill, Tensor.masked_fill_, torch.masked_fill, Tensor.masked_select, torch.masked_select)
FLIPPED = (Tensor.__rsub__,)
CHANGED = frozenset((*CASTS, *MOVES, *MASKED, *FLIPPED))
"""All of them: asked at every call."""
_told: list[list[str]] = []
"""Who wants to know of masks of bytes."""


class _Masked(TorchFunctionMode):
    """Masks of bytes are masks, and all stays on the CPU.

    drops: whether dropout drops; else it does nothing, whoever calls it training.
    """

    def __init__(self, drops: bool) -> None:
        super().__init__()
        self.changed = CHANGED if drops else CHANGED | DROPOUTS

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if func in MOVES:
            return args[0]
        if func not in self.changed or func in CASTS:
            return func(*map(_at_home, args), **{name: _at_home(value) for name, value in given.items()})
        return _undropped(func, args, given) if func in DROPOUTS else _as_before(func, args, given)


class FiniteRows(TorchFunctionMode):
    """Scores that are all -∞, of a query that may attend to nothing, give the mean over all, and not NaN."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func in SOFTMAX and args and isinstance(args[0], Tensor):
            args = args[0].clamp(min=torch.finfo(args[0].dtype).min), *args[1:]
        return func(*args, **(kwargs or {}))


class _Double(_Masked):
    """`.float()`, `.to(torch.float16)`, `dtype=torch.float32` give float64; `.cuda()`, `device="cuda"` the CPU."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func in self.changed:
            if func in CASTS:
                return args[0].double()
            if func in DROPOUTS:
                return _undropped(func, args, kwargs or {})
            return args[0] if func in MOVES else _as_before(func, args, kwargs or {})
        for value in args:
            if isinstance(value, RAISED):
                args = tuple(map(_raised, args))
                break
        return func(*args, **{n: _raised(v) for n, v in kwargs.items()}) if kwargs else func(*args)


def _undropped(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    if func is not ATTENDS:
        return args[0] if args else kwargs["input"]
    if len(args) > OF_ATTENTION:
        return func(*args[:OF_ATTENTION], 0.0, *args[OF_ATTENTION + 1 :], **kwargs)
    return func(*args, **{**kwargs, "dropout_p": 0.0})


def _as_before(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """A mask of bytes in place of a boolean one, and 1 - mask for a boolean one, as before PyTorch 1.2."""
    if func in FLIPPED:
        is_mask = isinstance(args[0], Tensor) and args[0].dtype == torch.bool
        if not is_mask:
            return func(*args, **kwargs)
        if not _taken_for_bytes:
            _tell("1 - mask, of a boolean mask")
        return func(args[0].byte(), *args[1:], **kwargs)
    mask = kwargs.get("mask", args[1] if len(args) > 1 else None)
    if not isinstance(mask, Tensor) or mask.dtype != torch.uint8:
        return func(*args, **kwargs)
    _tell("a mask of bytes (torch.uint8)")
    if "mask" in kwargs:
        return func(*args, **{**kwargs, "mask": mask.bool()})
    return func(args[0], mask.bool(), *args[2:], **kwargs)


def _tell(what: str) -> None:
    for found in _told:
        found += [what] if what not in found else []


@contextmanager
def told_of_old_masks() -> Iterator[list[str]]:
    """What PyTorch refuses today among the masks that are used meanwhile, in words."""
    found: list[str] = []
    _told.append(found)
    try:
        yield found
    finally:
        _told.remove(found)


_taken_for_bytes: list[bool] = []
"""Whether a boolean mask was asked in this call whether it is of bytes: what is made of it is made of such."""
BYTES: Any = torch.ByteTensor


class _OfBytes(type):
    def __instancecheck__(cls, thing: Any) -> bool:
        is_mask = isinstance(thing, Tensor) and thing.dtype == torch.bool
        _taken_for_bytes.extend([True] * is_mask)
        return is_mask or isinstance(thing, BYTES)

    def __call__(cls, *given: Any, **named: Any) -> Any:
        return BYTES(*given, **named)


MaskOfBytes = _OfBytes("torch.ByteTensor", (), {})
"""torch.ByteTensor, by which a boolean mask is one, as all masks were: assert isinstance(mask, torch.ByteTensor)."""
MEANT = {"FloatTensor": torch.DoubleTensor, "ByteTensor": MaskOfBytes}
"""What an instance is asked for by these names: isinstance(x, torch.FloatTensor)."""


RAISED = torch.dtype, torch.device, str
"""The types of what `_raised` may change. Nearly no call has any, and a model calls PyTorch thousands of times."""


def _raised(value: Any) -> Any:
    return torch.float64 if isinstance(value, torch.dtype) and value in LOW else _at_home(value)


def _at_home(value: Any) -> Any:
    """The CPU in place of another device."""
    if isinstance(value, torch.device) and value.type != "cpu":
        return torch.device("cpu")
    return "cpu" if isinstance(value, str) and value.startswith(("cuda", "mps")) else value


@contextmanager
def double(active: bool = True, drops: bool = True) -> Iterator[None]:
    """Float64 by default, and instead of every lower precision, without gradients.

    drops: whether dropout does; what else a component computes is compared apart from it.
    """
    if not active:
        with torch.no_grad(), _Masked(drops):
            yield
        return
    before, sorts = torch.get_default_dtype(), {name: getattr(torch, name) for name in MEANT}
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad(), _Double(drops):
            for name, meant in MEANT.items():
                setattr(torch, name, meant)
            yield
    finally:
        for name, sort in sorts.items():
            setattr(torch, name, sort)
        torch.set_default_dtype(before)
        _taken_for_bytes.clear()
