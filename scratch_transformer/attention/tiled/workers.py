"""How blocks are shared out among threads, and the threads' memory.

torch spreads every single operation over its threads and waits for the slowest. Attention in tiles is hundreds of
operations a call: where another process holds a core for a moment, all of them wait, again and again, and the call
takes ten times as long. Whole blocks wait for nobody: threads of our own take them from one list, and a thread that is
held up takes fewer. (torch's operations release Python's lock, so threads do run side by side.) On idle cores, though,
torch's way is the faster by a tenth: its threads are awake. So that is how it is done, until a call takes suspiciously
long.
"""

from __future__ import annotations

import functools
import math
import os
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import torch
from torch import Tensor

from scratch_transformer.attention.tiled import bystanders

Task = TypeVar("Task")

# A larger buffer is given back after the call.
KEPT_BYTES = 8 << 20
# A call has been held up if spreading its operations took so many times what one thread would need for the products. On
# idle cores two threads take 0.6 to 1 times that, beside a busy process 1.3 to 3 times; a short call may just be cold.
SLOW, SLOW_AND_SHORT = 1.25, 3.0
SHORT_SECONDS = 0.01
# After two such calls in a row that took so many seconds together, or more (a system's short errand holds up several
# short calls), nothing is spread for so long: in seconds, and in times that the call took.
HELD_UP_SECONDS = 0.05
CROWDED_SECONDS = 5.0
CROWDED_CALLS = 20
# Tasks for each thread, then: the last one to end keeps the others waiting for so small a part of the whole.
SHARES = 4


class _Crowd:
    """Whether other processes hold the cores, as far as the times of calls tell."""

    over = -math.inf  # until when, by time.monotonic
    slow_calls = 0  # in a row
    slow_seconds = 0.0  # that they took

    def note(self, seconds: float, flops: float) -> None:
        """A call whose operations were spread took so long. One slow call says little: it may have been the first."""
        needed = flops / _flops_per_second()
        if seconds <= needed * (SLOW if needed > SHORT_SECONDS else SLOW_AND_SHORT):
            self.slow_calls, self.slow_seconds = 0, 0.0
            return
        self.slow_calls += 1
        self.slow_seconds += seconds
        if self.slow_calls > 1 and self.slow_seconds >= HELD_UP_SECONDS:
            self.over = time.monotonic() + max(CROWDED_SECONDS, CROWDED_CALLS * seconds)


class _Local(threading.local):
    """The buffers of each thread, by the dtype of computing."""

    def __init__(self) -> None:
        self.scratches: dict[torch.dtype, Scratch] = {}


_crowd = _Crowd()

_pools: dict[int, ThreadPoolExecutor] = {}
_ours: set[int | None] = set()
_local = _Local()
_lock = threading.Lock()
if hasattr(os, "register_at_fork"):  # the threads of a process are not there in its fork
    os.register_at_fork(after_in_child=_pools.clear)
    os.register_at_fork(after_in_child=_ours.clear)  # their numbers may become strangers'


def is_alone() -> bool:
    """Whether no thread of Python's computes but the calling one and those of `run`."""
    own = threading.current_thread()
    return not bystanders.compute([t for t in threading.enumerate() if t.ident not in _ours and t is not own])


def enough() -> int:
    """How many tasks are enough: one, or where threads are held up, some for each thread to share out."""
    threads = torch.get_num_threads()
    return threads * SHARES if threads > 1 and time.monotonic() < _crowd.over else 1


class Scratch:
    """Buffers of one thread, by name, used again from task to task."""

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self.dtype = dtype
        self._device = device
        self._buffers: dict[tuple[str, torch.dtype], Tensor] = {}
        self._holds: dict[str, Hashable] = {}

    def __call__(self, name: str, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """A contiguous buffer of this shape with anything in it, in the dtype of computing if no other is given."""
        size, dtype = math.prod(shape), dtype or self.dtype
        buffer = self._buffers.get((name, dtype))
        if buffer is None or buffer.numel() < size:
            buffer = self._buffers[name, dtype] = torch.empty(size, dtype=dtype, device=self._device)
        return buffer[:size].view(shape)

    def copy(self, name: str, x: Tensor, key: Hashable) -> Tensor:
        """x in the buffer of that name; not copied again while the buffer holds what `key` stands for."""
        buffer = self(name, *x.shape)
        if self._holds.get(name) != key:
            buffer.copy_(x)
            self._holds[name] = key
        return buffer

    def forget(self) -> None:
        """What is in the buffers belongs to a call that is over. Large ones are given back."""
        self._holds.clear()
        for name, buffer in list(self._buffers.items()):
            if buffer.numel() * buffer.element_size() > KEPT_BYTES:
                del self._buffers[name]


def run_in_turn(tasks: list[Task], work: Callable[[Task, Scratch], Any], like: Tensor) -> None:
    """`work(task, scratch)` for one task after the other. like: dtype and device of the buffers."""
    _work_off(list(reversed(tasks)), work, like)


def run(tasks: list[Task], work: Callable[[Task, Scratch], Any], like: Tensor, flops: float | None) -> None:
    """`work(task, scratch)` for every task, the first ones first, several at a time where that is faster.

    like: as in `run_in_turn`. flops: multiplications and additions of all tasks together; None: of products there are
    too few to tell by the time whether cores are held by others.
    """
    waiting = list(reversed(tasks))
    usual = torch.get_num_threads()
    if like.device.type != "cpu" or usual == 1:
        _work_off(waiting, work, like)
    elif len(tasks) > 1 and time.monotonic() < _crowd.over:
        _side_by_side(usual, waiting, work, like)
    else:
        start = time.monotonic()
        _work_off(waiting, work, like)
        if flops is not None:
            _crowd.note(time.monotonic() - start, flops)


def _side_by_side(usual: int, waiting: list[Task], work: Callable[[Task, Scratch], Any], like: Tensor) -> None:
    """This thread and others work off the same list. usual: torch's number of threads, set again in the end.

    (Asked for here, it may be the 1 that another caller has set for a moment.)
    """
    threads = min(usual, len(waiting))
    others = [_pool(threads).submit(_work_off, waiting, work, like) for _ in range(threads - 1)]
    torch.set_num_threads(1)
    try:
        _work_off(waiting, work, like)
    finally:
        torch.set_num_threads(usual)
        waiting.clear()
        _results(others)


@functools.cache
def _flops_per_second() -> float:
    """Of one thread: matrix products as in a tile, the fastest of some."""
    usual = torch.get_num_threads()
    torch.set_num_threads(1)
    a, b = torch.ones(256, 64), torch.ones(64, 512)
    seconds = []
    try:
        for _ in range(20):
            start = time.perf_counter()
            a @ b
            seconds.append(time.perf_counter() - start)
    finally:
        torch.set_num_threads(usual)
    return 2 * 256 * 64 * 512 / min(seconds)


def _results(futures: list[Future[None]]) -> None:
    for future in futures:
        future.result()


def _work_off(waiting: list[Task], work: Callable[[Task, Scratch], Any], like: Tensor) -> None:
    # inference mode: nothing is recorded, whatever the mode of the calling thread
    with torch.inference_mode():
        scratch = _scratch(like)
        try:
            while True:
                try:
                    task = waiting.pop()
                except IndexError:
                    return
                work(task, scratch)
        except BaseException:
            waiting.clear()
            raise
        finally:
            scratch.forget()


def _scratch(like: Tensor) -> Scratch:
    """This thread's buffers. On other devices torch keeps freed memory for the next call itself."""
    new = Scratch(like.dtype, like.device)
    return _local.scratches.setdefault(like.dtype, new) if like.device.type == "cpu" else new


def _pool(threads: int) -> ThreadPoolExecutor:
    """The other threads of `threads`, all of them started."""
    with _lock:
        if threads not in _pools:
            pool, everyone = ThreadPoolExecutor(threads - 1, "attention"), threading.Barrier(threads - 1)
            usual = torch.get_num_threads()
            list(pool.map(_alone, [everyone] * (threads - 1)))
            torch.set_num_threads(usual)  # `_alone` set the number for threads to come, too
            _pools[threads] = pool
        return _pools[threads]


def _alone(everyone: threading.Barrier) -> None:
    """From here on this thread's operations run on this thread alone."""
    everyone.wait()  # so that no thread does this twice
    _ours.add(threading.get_ident())
    torch.get_num_threads()  # at a thread's first use of it, torch sets the number to everybody's
    torch.set_num_threads(1)
