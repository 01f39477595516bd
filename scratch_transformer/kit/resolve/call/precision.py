"""Runs a learner's code in float64 on the CPU, whatever it casts to, and without dropout that ignores eval()."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

LOW = (torch.float32, torch.float16, torch.bfloat16)
CASTS = (Tensor.float, Tensor.half, Tensor.bfloat16)
DROPOUTS = (torch.nn.functional.dropout, torch.dropout)
MOVES = (Tensor.cuda,)


class _Double(TorchFunctionMode):
    """`.float()`, `.to(torch.float16)`, `dtype=torch.float32` give float64; `.cuda()`, `device="cuda"` the CPU."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func in CASTS:
            return args[0].double()
        if func in MOVES:
            return args[0]
        return func(*[_raised(value) for value in args], **{n: _raised(v) for n, v in (kwargs or {}).items()})


class _Evaluated(TorchFunctionMode):
    """Dropout does nothing, even where the code does not tell it that this is no training."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if func in DROPOUTS:
            return args[0] if args else given["input"]
        return func(*args, **given)


@contextmanager
def without_dropout(active: bool) -> Iterator[None]:
    """What else a component computes is compared apart from it."""
    with _Evaluated() if active else nullcontext():
        yield


def _raised(value: Any) -> Any:
    if isinstance(value, torch.dtype) and value in LOW:
        return torch.float64
    if isinstance(value, torch.device) and value.type != "cpu":
        return torch.device("cpu")
    return "cpu" if isinstance(value, str) and value.startswith(("cuda", "mps")) else value


@contextmanager
def double(active: bool = True) -> Iterator[None]:
    """Float64 by default, and instead of every lower precision, without gradients."""
    if not active:
        with torch.no_grad():
            yield
        return
    before, float_tensor = torch.get_default_dtype(), torch.FloatTensor
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad(), _Double():
            setattr(torch, "FloatTensor", torch.DoubleTensor)  # noqa: B010  isinstance(x, torch.FloatTensor)
            yield
    finally:
        setattr(torch, "FloatTensor", float_tensor)  # noqa: B010
        torch.set_default_dtype(before)
