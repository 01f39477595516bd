"""The peak of memory that a call takes above its inputs and outputs.

On a GPU PyTorch counts it. On the CPU nobody counts tensors, so the call runs in a fresh process, and the operating
system says how large that process was at most: resident memory, with every buffer of every library.

    python -m scratch_transformer.benchmarking.outside tiled    # the same, looked at from outside the process
"""

from __future__ import annotations

import ctypes
import functools
import gc
import multiprocessing
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from scratch_transformer.benchmarking.case import Case, Rival

# torch imports the second when it first goes backward, and the third for an operator that is written in Python.
PRELOADED = [
    "torch",
    "torch.fx.experimental.symbolic_shapes",
    "torch._dynamo",
    "scratch_transformer.benchmarking.layer_case",
]
"""What a measured process may need, imported once for all of them."""

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class NotMeasured(Exception):
    """The process that was to be measured did not reach its end; the message says why."""


def peak(case: Case, rival: Rival, device: str = "cpu") -> int:
    """Bytes above the inputs and outputs, at the worst moment of one call.

    Raises:
        NotMeasured: the call ended otherwise than with a result.
    """
    if torch.device(device).type == "cuda":
        return _peak_on_cuda(case, rival, device)
    return _in_fresh_process(case, rival)


def _peak_on_cuda(case: Case, rival: Rival, device: str) -> int:
    try:
        prepared = case.prepare(rival, case.draw(device))
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        outcome = prepared()
        torch.cuda.synchronize(device)
        return max(torch.cuda.max_memory_allocated(device) - before - _size(outcome), 0)
    except Exception as error:  # a process of its own, as on the CPU, would need minutes to load and compile everything
        reason = f"{type(error).__name__}: {error}".strip().splitlines()[0]
    give_back(device)
    raise NotMeasured(reason)


def give_back(device: str) -> None:
    """Return what is not used any more to the GPU, for others to take."""
    if torch.device(device).type == "cuda":
        gc.collect()
        torch.cuda.empty_cache()


def _size(outcome: tuple[Tensor, ...]) -> int:
    return sum(x.nbytes for x in outcome)


# ---- On the CPU ----


def _in_fresh_process(case: Case, rival: Rival) -> int:
    receiver, sender = _processes().Pipe(duplex=False)
    process = _processes().Process(target=_measure, args=(case, rival, torch.get_num_threads(), sender), daemon=True)
    process.start()
    sender.close()
    try:
        found = receiver.recv()
    except EOFError:
        process.join()
        found = f"its process ended with {process.exitcode}: too little memory?"
    process.join()
    if isinstance(found, str):
        raise NotMeasured(found)
    return found


@functools.cache
def _processes() -> Any:
    """Where fresh processes come from: forked, if possible, from one that has imported torch and computed nothing."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


def _measure(case: Case, rival: Rival, threads: int, sender: Connection) -> None:
    """In the fresh process: send the peak, or what went wrong."""
    try:
        torch.set_num_threads(threads)
        warm = case if rival.compiles else case.small()  # libraries load their code, and compilers work, before
        case.prepare(rival, warm.draw("cpu"))()
        sender.send(_peak_of_call(case, rival))
    except Exception as error:
        sender.send(f"{type(error).__name__}: {error}")


def _peak_of_call(case: Case, rival: Rival) -> int:
    prepared = case.prepare(rival, case.draw("cpu"))
    gc.collect()
    _trim()
    before = _start_of_peak()
    outcome = prepared()
    return max(_highest() - before - _size(outcome), 0)


def _trim() -> None:
    """Make the C library give freed memory back, or the call would find it there at no cost."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # other C libraries than GNU's have none
        if trim is not None:
            trim(0)


def _start_of_peak() -> int:
    """Let the peak begin now; returns the size that the process has now."""
    try:
        CLEAR.write_text("5")
    except OSError:  # no Linux, or not allowed: the peak so far is no smaller than the size now
        return _highest()
    return _highest()


def _highest() -> int:
    """The largest size of this process so far, in bytes."""
    if STATUS.exists():
        fields = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
        return int(fields["VmHWM"].split()[0]) * 1024
    import resource  # Windows has none

    highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return highest if sys.platform == "darwin" else highest * 1024


def available(device: str) -> int:
    """Bytes that could be had now."""
    if torch.device(device).type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    meminfo = Path("/proc/meminfo")
    if not meminfo.exists():
        return 8 * 2**30  # a guess that fits most machines
    fields = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
    return int(fields["MemAvailable"].split()[0]) * 1024
