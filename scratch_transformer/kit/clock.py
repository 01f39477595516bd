"""The kit's clock: it goes by what is computed, and not by how long that takes.

Mistakes are looked for in bounded time. Its seconds are counted: so much for a call of the learner's code, so much
for one of the reference, as a processor of the usual speed needs for them. So a report is the same every time, on any
machine, whatever else that does.

What takes far longer than is counted for it, in calls that are a thousand times as long as others, is ended by the
processor's own time: `at_most`. `lasting` is for the system's timers, which stop what does not end.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

CALL, SINGLE, STOPPED = 1e-3, 3e-4, 1e-4
"""Seconds for a call of the learner's code; for one of many, for a sentence or a head alone; for one that stops."""
REFERENCE, HYPOTHESIS = 4e-4, 2e-5
"""For a call of the reference; for a recipe whose output was computed before."""
TOY = 2e-4
"""For each word that a function which writes texts asks the model for that stands in its model's place."""
PART, WEIGHT = 2e-5, 2e-9
"""The same for each module in what is called; for each of its weights."""
BUILT = 2.5e-4
"""For each module of what is built."""
LATE, HURRY = 1e6, 4.0
"""What is late is so for all that was to end by now, and gets a quarter of any time from then on."""

USUAL = 0.01
"""Seconds that `_work` takes on the processors that the kit's limits were chosen on."""
MOST = 4.0
TIMES = 5


class _Speed:
    slowness = 1.0


class _Work:
    counted = 0.0
    end = float("inf")
    """The process's own time from which on it is late for everything."""


def now() -> float:
    """Seconds of computing that were counted so far."""
    over = (time.process_time() - _Work.end) / _Speed.slowness
    return _Work.counted + (LATE + HURRY * over if over > 0 else 0.0)


def count(seconds: float) -> None:
    """So much was computed."""
    _Work.counted += seconds


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """In the block, all time is up when the process has computed for so long, whatever was counted."""
    before, _Work.end = _Work.end, time.process_time() + lasting(seconds)
    try:
        yield
    finally:
        _Work.end = before


def of_call(module: Any, least: float) -> float:
    """Seconds for a call of a module, or of a function, which has no parts."""
    parts, weights = _extent(module)
    return least + PART * parts + WEIGHT * weights


def of_building(module: Any) -> float:
    """Seconds for making a module."""
    parts, weights = _extent(module)
    return BUILT * parts + 10 * WEIGHT * weights


def _extent(module: Any) -> tuple[int, int]:
    """How many parts a module has, and weights, but for those still to be made; what is no module has none."""
    from torch import nn
    from torch.nn.parameter import is_lazy

    parts = [*module.modules()] if isinstance(module, nn.Module) else []
    own = [values for part in parts for values in part._parameters.values() if values is not None]
    return len(parts), sum(values.numel() for values in own if not is_lazy(values))


def lasting(seconds: float) -> float:
    """So many of these seconds, for a timer of the system's."""
    return seconds * _Speed.slowness


def adjust() -> float:
    """Find out how many times as slow as usual the processor is, from 1 to MOST, and count by that from now on."""
    needed = []
    for _ in range(TIMES):
        begin = time.process_time()
        _work()
        needed.append(time.process_time() - begin)
    _Speed.slowness = min(max(min(needed) / USUAL, 1.0), MOST)
    return _Speed.slowness


def _work() -> None:
    """What most of a check is: operations on small tensors, one after another."""
    import torch  # the process that watches has no use for it

    x, w = (torch.full(shape, 0.1, dtype=torch.float64) for shape in ((3, 5, 16), (16, 16)))
    for _ in range(200):
        y = x @ w
        y = y - y.mean(-1, keepdim=True)
        shares = (y @ y.transpose(-2, -1)).exp()
        x = (shares / shares.sum(-1, keepdim=True) @ y + x).clamp(-1.0, 1.0)
