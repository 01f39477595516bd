"""How much of the processors other processes use: times taken beside them are slower, and scatter."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable

import psutil

BUSY = 0.1
"""Processors: others that use less disturb nothing that can be seen in the results."""

LOOK = 3.0
"""Seconds."""

TIMES = ("user", "system", "children_user", "children_system")
"""Of a process, and of its children that have ended."""


class Watch:
    """From its creation on, and for as many `seconds` before it, in which others `used` so many processor seconds."""

    def __init__(self, seconds: float = 0.0, used: float = 0.0) -> None:
        self._start = time.monotonic() - seconds
        self._all, self._ours = _busy() - used, _ours()

    def seconds(self) -> float:
        """So far."""
        return time.monotonic() - self._start

    def used(self) -> float:
        """Seconds for which others have had a processor so far."""
        return max(0.0, (_busy() - self._all) - (_ours() - self._ours))

    def others(self) -> float:
        """Processors that others have used so far, on average: 1.0 is one processor all the time."""
        seconds = self.seconds()
        return self.used() / seconds if seconds > 0 else 0.0


def now() -> float:
    """Processors that others use, over `LOOK` seconds."""
    watch = Watch()
    time.sleep(LOOK)
    return watch.others()


def wait(tell: Callable[[str], object]) -> None:
    """Until others use less than `BUSY`. tell: told how much they use, whenever they use more."""
    while (used := now()) >= BUSY:
        tell(f"waiting: other processes use {used:.1f} of {os.cpu_count()} processors")


def _busy() -> float:
    """Seconds that all processors together have worked, for whomever, since the machine started."""
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    counted_twice = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    return sum(times) - idle - counted_twice


def _ours() -> float:
    """Seconds of this process and of all that it has begun, or that these have: those at work, and those that ended."""
    own = psutil.Process()
    found = 0.0
    for process in (own, *own.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended since
            times = process.cpu_times()
            found += sum(getattr(times, name, 0.0) for name in TIMES)
    return found
