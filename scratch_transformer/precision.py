"""Half precision: compute in float32, round once.

Rounding after every operation would lose most of the eight (bfloat16) or eleven (float16) significant bits. torch's
own kernels accumulate in float32 too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

HALF_PRECISION = (torch.float16, torch.bfloat16)
# Asked once: torch.compile of older releases does not know the question.
_WITH_AUTOCAST = frozenset(
    kind for kind in ("cpu", "cuda", "hpu", "mps", "mtia", "xla", "xpu") if torch.amp.is_autocast_available(kind)
)


def widen(value: Any) -> Any:
    """A float16 or bfloat16 tensor in float32; anything else as it is."""
    return value.float() if isinstance(value, Tensor) and value.dtype in HALF_PRECISION else value


def is_cast(device: torch.device) -> bool:
    """Whether autocast is on for this kind of device."""
    return device.type in _WITH_AUTOCAST and torch.is_autocast_enabled(device.type)


def cast_dtype(x: Tensor) -> torch.dtype:
    """The dtype in which torch's attention takes x: its own, unless autocast has another."""
    return torch.get_autocast_dtype(x.device.type) if x.dtype != torch.float64 and is_cast(x.device) else x.dtype


def rounded_once(equation: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Evaluate `equation` in float32 where its first argument is float16 or bfloat16, and round the result."""

    @functools.wraps(equation)
    def wrapper(x: Tensor, *args: object, **kwargs: object) -> Tensor:
        if x.dtype not in HALF_PRECISION:
            return equation(x, *args, **kwargs)
        wide = equation(x.float(), *map(widen, args), **{name: widen(value) for name, value in kwargs.items()})
        return wide.to(x.dtype)

    return wrapper
