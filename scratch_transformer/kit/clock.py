"""The kit's clock: seconds of computing, as a processor of the usual speed would need them.

Mistakes are looked for in bounded time. Where the same work takes three times as long, on a slower processor or beside
others that share it, it gets three times as long: what is found there is the same.
"""

from __future__ import annotations

import time

USUAL = 0.01
"""Seconds that `_work` takes on the processors that the kit's limits were chosen on."""
MOST = 4.0
TIMES = 5


class _Speed:
    slowness = 1.0


def now() -> float:
    """Seconds of computing by this process so far."""
    return time.process_time() / _Speed.slowness


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
