"""Products of bfloat16 numbers by the processor's own instructions for them, with sums in float32.

A processor that multiplies bfloat16 itself (AVX512-BF16, AMX) takes less than half the time for such products. Two ways
lead to them, and on both Q Kᵀ stays exact to rounding in float32, for large scores would be wrong otherwise:

- narrowed: the tiles hold bfloat16 numbers widened to float32, and oneDNN narrows what it multiplies. Q and K have been
  bfloat16 before; only weights and gradients on their way through a product are rounded, as the builtin rounds them.
- rounded: torch multiplies tensors of bfloat16, and rounds what comes out to bfloat16: it has no other such product on
  a CPU. So these are the products that are summed up over tiles, in float32, and the gradient of the weights.

oneDNN is told to narrow by a setting of the whole process, which the float32 products of other threads would see. So it
is set during calls in bfloat16 only, and only while no thread but ours may compute (`bystanders`): none, then, can
start one. On some processors oneDNN narrows nothing, though they multiply bfloat16: it is measured once. Where it can't
be had, products are rounded.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from scratch_transformer.attention.tiled import workers

# How many times as fast products must be to be taken; without the instructions they are as fast as any.
PAYS = 1.3
# Rows of a product from which on narrowing its other matrix on the way takes less time than it saves.
ROWS = 32


class _Narrowed:
    """How many calls want the setting at the moment, and what it was before the first of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls = 0
        self._before: str

    def enter(self) -> None:
        with self._lock:
            if self._calls == 0:
                self._before = _setting().fp32_precision
                _setting().fp32_precision = "bf16"
            self._calls += 1

    def leave(self) -> None:
        with self._lock:
            self._calls -= 1
            if self._calls == 0:
                _setting().fp32_precision = self._before

    def forget(self) -> None:
        """In a fork no call goes on."""
        self._lock = threading.Lock()
        if self._calls > 0:
            self._calls = 0
            _setting().fp32_precision = self._before


_narrowed = _Narrowed()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_narrowed.forget)


class Way(enum.Enum):
    """How a call's products are computed, in words for `explain`."""

    WIDE = "products in float32"
    NARROWED = "products of bfloat16 by the processor"
    ROUNDED = "products of bfloat16 by the processor, rounded, and scores in float32"


def way(dtype: torch.dtype, device: torch.device, rows: int) -> Way:
    """That of a call. rows: queries that share a key."""
    if against(dtype, device, rows) is None:
        return Way.NARROWED
    rounds = dtype == torch.bfloat16 and device.type == "cpu" and rows >= ROWS and multiplies_bfloat16()
    return Way.ROUNDED if rounds else Way.WIDE


@contextlib.contextmanager
def asked_for(way: Way) -> Iterator[None]:
    """Within it oneDNN is told to narrow, if that is the way."""
    if way is not Way.NARROWED:
        yield
        return
    _narrowed.enter()
    try:
        yield
    finally:
        _narrowed.leave()


def advantage(dtype: torch.dtype, device: torch.device, rows: int) -> str:
    """In words for `explain`, for bfloat16 on a CPU; else empty."""
    if dtype != torch.bfloat16 or device.type != "cpu":
        return ""
    reason, words = against(dtype, device, rows), way(dtype, device, rows).value
    return words if reason is None else f"{words}: {reason}"


def against(dtype: torch.dtype, device: torch.device, rows: int) -> str | None:
    """Why oneDNN does not narrow a call's products, or None if it does. rows: queries that share a key."""
    if dtype != torch.bfloat16 or device.type != "cpu":
        return "only bfloat16 on a CPU has others"
    if rows < ROWS:
        return "for few queries it takes longer to narrow the keys"
    if not _can():
        return f"torch {torch.__version__} can't ask for others"
    if torch.are_deterministic_algorithms_enabled():
        return "deterministic algorithms are asked for, and which threads run would decide"
    if not workers.is_alone():
        return "other threads run, whose products would be rounded too"
    if not _pays():
        return "oneDNN multiplies no faster for it here"
    return None


def _can() -> bool:
    """Whether torch has the setting: since 2.9."""
    try:
        _setting()
    except AttributeError:
        return False
    return True


def _setting() -> Any:
    return torch.backends.mkldnn.matmul  # type: ignore[attr-defined]


@functools.cache
def _pays() -> bool:
    """Whether such products are faster here, about four milliseconds."""
    with torch.inference_mode():
        a, b, out = torch.ones(4, 256, 64), torch.ones(4, 64, 512), torch.empty(4, 256, 512)
        before = _setting().fp32_precision

        def multiply(precision: str) -> None:
            _setting().fp32_precision = precision
            torch.bmm(a, b, out=out)

        try:
            return is_faster(lambda: multiply("bf16"), lambda: multiply(before), PAYS)
        finally:
            _setting().fp32_precision = before


@functools.cache
def multiplies_bfloat16() -> bool:
    """Whether products of tensors in bfloat16 are faster here than in float32, without a setting."""
    with torch.inference_mode():
        a, b = torch.ones(4, 16, 1024), torch.ones(4, 1024, 64)
        narrow, wide = [(a.to(dtype), b.to(dtype)) for dtype in (torch.bfloat16, torch.float32)]
        return is_faster(lambda: torch.bmm(*narrow), lambda: torch.bmm(*wide), PAYS)


def is_faster(first: Callable[[], object], second: Callable[[], object], times: float) -> bool:
    """Whether the first is so many times as fast: in turns, the fastest of some, on one thread."""
    timed: list[tuple[Callable[[], object], list[float]]] = [(first, []), (second, [])]
    usual = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for _ in range(8):
            for call, seconds in timed:
                start = time.perf_counter()
                call()
                seconds.append(time.perf_counter() - start)
    finally:
        torch.set_num_threads(usual)
    quickest, others = (min(seconds) for _, seconds in timed)
    return others > times * quickest
