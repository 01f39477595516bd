"""Which of Python's other threads may compute while a call runs, and which only wait, read or write.

A notebook's kernel, a progress bar, TensorBoard's writer, a DataLoader and torch.compile each keep threads. None of
these multiplies anything, and none starts a thread that does.
"""

from __future__ import annotations

import concurrent.futures.thread
import sys
import threading
from types import CodeType

HARMLESS = (
    "ipykernel.heartbeat", "ipykernel.iostream", "ipykernel.control", "ipykernel.shellchannel",
    "ipykernel.parentpoller", "IPython.core.history", "zmq", "tqdm", "tensorboard", "logging", "multiprocessing.queues",
    "torch.utils.data._utils.pin_memory", "torch._inductor",
)  # fmt: skip
"""Modules whose threads these are. A notebook runs its cells in the main thread, and in those of ipykernel.subshell."""


def compute(threads: list[threading.Thread]) -> bool:
    """Whether any of some threads may compute while the calling one does nothing but compute."""
    return any(not (_is_harmless(thread) or _waits_for_a_task(thread)) for thread in threads)


def _is_harmless(thread: threading.Thread) -> bool:
    """By the module of its class, or of the function that it runs."""
    function = getattr(thread, "_target", None)
    home = str(getattr(function if type(thread) is threading.Thread else type(thread), "__module__", None))
    return any(home == one or home.startswith(f"{one}.") for one in HARMLESS)


def _waits_for_a_task(thread: threading.Thread) -> bool:
    """Whether it is an executor's, and idle: only a thread that is awake could give it a task."""
    idle: CodeType | None = getattr(getattr(concurrent.futures.thread, "_worker", None), "__code__", None)
    frame = sys._current_frames().get(thread.ident or 0)
    return frame is not None and frame.f_code is idle and frame.f_locals.get("work_item") is None
