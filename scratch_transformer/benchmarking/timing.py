"""Durations of rivals that take turns, and what a ratio of two of them is worth.

A machine that is busy with something else for a second slows whoever runs just then. So rivals run round by round, one
after the other, and a ratio is taken within each round: the median of these ratios hardly moves, and its spread says
how much the machine did.
"""

from __future__ import annotations

import contextlib
import gc
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch

BATCH = {"cpu": 2e-3, "cuda": 10e-3}
"""Seconds: a shorter call is repeated within one measurement until they last this long. On a GPU the first of them also
waits for the processor to send it off: in a longer batch that counts for less."""

HOPELESS = 20
"""Who takes so many times as long as the fastest, and longer than a batch, is measured once: others need the time."""

Timer = Callable[[], float]


@dataclass(frozen=True)
class Prepared:
    """A call that is ready to be timed, and the switches under which it runs, which are set outside the clock.

    proof: what can be checked in place of the call's own outcome, where that is random.
    """

    call: Callable[[], Any]
    context: Callable[[], AbstractContextManager[Any]] = contextlib.nullcontext
    proof: Callable[[], Any] | None = None

    def __call__(self) -> Any:
        """The call once, under its switches."""
        with self.context():
            return self.call()

    def outcome(self) -> Any:
        """What the call finds, or its proof."""
        with self.context():
            return (self.proof or self.call)()


@dataclass(frozen=True)
class Effort:
    """At most so many rounds; after the third, none that would end beyond so many seconds."""

    rounds: int
    seconds: float


@dataclass(frozen=True)
class Spread:
    """A median, and the values below which a fifth and four fifths lie."""

    median: float
    p20: float
    p80: float


def timer_of(device: str | torch.device) -> Timer:
    """The clock for what runs on a device."""
    if torch.device(device).type != "cuda":
        return time.perf_counter

    def synchronised_time() -> float:
        """Seconds once this GPU has done all that was queued: it times the work, and not the queueing."""
        torch.cuda.synchronize(device)
        return time.perf_counter()

    return synchronised_time


def batch_of(device: str | torch.device) -> float:
    """How long a measurement should last on a device, at least."""
    return BATCH["cuda" if torch.device(device).type == "cuda" else "cpu"]


def interleave(
    calls: Mapping[str, Prepared], timer: Timer, effort: Effort, batch: float = BATCH["cpu"]
) -> dict[str, list[float]]:
    """Seconds per call of every rival in every round. Who begins rotates. All have run once before, for warmth.

    Whose result was proved in another way runs now: a compiler begins anew with the call itself. Who is `HOPELESS` has
    a single duration.
    """
    for prepared in calls.values():
        if prepared.proof is not None:
            prepared()
    once = {name: _once(calls[name], timer, batch) for name in calls}
    limit = max(batch, HOPELESS * min(once.values(), default=0.0))
    names = [name for name in calls if once[name] <= limit]
    repeats = {name: max(1, math.ceil(batch / max(once[name], 1e-7))) for name in names}
    durations: dict[str, list[float]] = {name: [] if name in names else [once[name]] for name in calls}
    start = time.perf_counter()
    with _no_collection():
        for done in range(effort.rounds):
            elapsed = time.perf_counter() - start
            if done >= 3 and elapsed * (done + 1) / done > effort.seconds:
                break
            for i in range(len(names)):
                name = names[(i + done) % len(names)]
                durations[name].append(measure(calls[name], timer, repeats[name]))
    return durations


def measure(prepared: Prepared, timer: Timer, repeats: int = 1) -> float:
    """Seconds per call, of `repeats` calls in a row."""
    with prepared.context():
        start = timer()
        for _ in range(repeats):
            prepared.call()
        return (timer() - start) / repeats


def _once(prepared: Prepared, timer: Timer, batch: float) -> float:
    seconds = measure(prepared, timer)
    if seconds < batch:  # so short that an interruption would mislead: look again
        seconds = min(seconds, measure(prepared, timer))
    return seconds


@contextlib.contextmanager
def _no_collection() -> Any:
    """Python's garbage collector runs before, and not in somebody's turn."""
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def spread(values: Sequence[float]) -> Spread:
    """The median of values and the range of their middle three fifths."""
    if len(values) == 1:
        return Spread(values[0], values[0], values[0])
    fifths = statistics.quantiles(values, n=5, method="inclusive")
    return Spread(statistics.median(values), fifths[0], fifths[-1])


def ratio(theirs: Sequence[float], ours: Sequence[float]) -> Spread:
    """Theirs over ours, round by round: above one, ours is faster. A single duration stands for all rounds."""
    rounds = max(len(theirs), len(ours))
    theirs, ours = (list(x) * rounds if len(x) == 1 else x for x in (theirs, ours))
    return spread([a / b for a, b in zip(theirs, ours, strict=True)])


def geometric_mean(values: Sequence[float]) -> float:
    """The mean that is fair to ratios: of 2 and ½ it is 1."""
    return math.exp(statistics.fmean(math.log(value) for value in values))
