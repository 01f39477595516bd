"""The proof on this machine: everything that the table promises, checked one by one.

    for check in verify(plan()):
        print(check.task.component, check.description, check.status)

A `Task` is made of names and numbers only, so it can travel to a worker process, and to whoever wants to repeat it.
"""

from __future__ import annotations

import functools
import multiprocessing
import re
import signal
import warnings
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch

from scratch_transformer.conformance.compare import (
    BuiltinUnsupported,
    Equality,
    Precision,
    compare_definition,
    compare_precision,
)
from scratch_transformer.conformance.component import Component
from scratch_transformer.conformance.draw import Draw
from scratch_transformer.conformance.errors import faults
from scratch_transformer.conformance.invariants import tolerance
from scratch_transformer.conformance.oracle import compare_oracle
from scratch_transformer.conformance.run import run
from scratch_transformer.conformance.switches import exact
from scratch_transformer.conformance.table import COMPONENTS

DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
Kind = Literal["definition", "oracle", "precision", "error", "invariant"]
Status = Literal["passed", "failed", "skipped"]

FEW_TASKS = 200
"""Fewer are done before a worker process has imported torch."""


@dataclass(frozen=True)
class Task:
    """One thing to check: case number `index` of a component, its error case or its invariant of that number."""

    component: str
    kind: Kind
    index: int
    dtype: str = "float64"
    device: str = "cpu"


@dataclass(frozen=True)
class Check:
    """What came of a task. note: why it failed or was skipped."""

    task: Task
    description: str
    status: Status
    note: str = ""
    equality: Equality | None = None
    precision: Precision | None = None
    violation: float | None = None


def plan(components: Collection[str] = (), dtypes: Collection[str] = (), device: str = "cpu") -> list[Task]:
    """All tasks of these components (all, if none are named) in these dtypes (all), in the order of the table.

    Raises:
        ValueError: there is no such component or dtype.
    """
    for given, known in ((components, COMPONENTS), (dtypes, DTYPES)):
        if not set(given) <= set(known):
            raise ValueError(f"{sorted(set(given) - set(known))} must be among {', '.join(known)}")
    chosen = [COMPONENTS[name] for name in COMPONENTS if name in (components or COMPONENTS)]
    wanted = [dtype for dtype in DTYPES if dtype in (dtypes or DTYPES)]
    return [task for component in chosen for task in _tasks(component, wanted, device)]


def _tasks(component: Component, dtypes: Sequence[str], device: str) -> Iterator[Task]:
    for dtype in dtypes:
        kinds: tuple[Kind, ...] = ("definition", "oracle") if dtype == "float64" else ("precision",)
        for kind in kinds:
            yield from (Task(component.name, kind, i, dtype, device) for i in range(len(component.cases)))
    yield from (Task(component.name, "error", i, "float32", "cpu") for i in range(len(component.errors)))
    if "float64" in dtypes:
        yield from (Task(component.name, "invariant", i, "float64", device) for i in range(len(component.invariants)))


def verify(tasks: Sequence[Task], workers: int = 1) -> Iterator[Check]:
    """Check the tasks in their order, in several processes if that pays and if they can be started."""
    done = 0
    if workers > 1 and len(tasks) > FEW_TASKS:
        try:
            for result in _in_processes(tasks, workers):
                yield result
                done += 1
        except (ImportError, OSError, BrokenProcessPool) as error:  # no semaphores, no memory, a script without a guard
            warnings.warn(f"no worker processes ({error}): going on with one process", RuntimeWarning, stacklevel=2)
    yield from map(check, tasks[done:])


def _in_processes(tasks: Sequence[Task], workers: int) -> Iterator[Check]:
    # A forked process would inherit locks of torch's threads, and cannot use CUDA.
    context = multiprocessing.get_context("spawn")
    ignore_interrupts = functools.partial(signal.signal, signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's affair
    pool = ProcessPoolExecutor(workers, context, ignore_interrupts)
    try:
        yield from pool.map(check, tasks, chunksize=4)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def check(task: Task) -> Check:
    """Do one task. Whatever goes wrong in it is its result, and never stops the others."""
    component = COMPONENTS[task.component]
    subjects: Sequence[Any] = {"error": component.errors, "invariant": component.invariants}.get(
        task.kind, component.cases
    )
    subject = subjects[task.index]
    description = subject.name if task.kind == "invariant" else subject.description
    result = Check(task, description, "failed")
    try:
        with exact():
            return _judged(_done(result, component, subject))
    except Exception as error:
        cannot = NotImplementedError if task.kind == "oracle" else BuiltinUnsupported
        return replace(result, status="skipped" if isinstance(error, cannot) else "failed", note=_told(error))


def _done(result: Check, component: Component, subject: Any) -> Check:
    task = result.task
    if task.kind == "error":
        return replace(result, note="; ".join(faults(component, subject)))
    if task.kind == "invariant":
        draw = Draw(0, torch.float64, task.device)
        return replace(result, violation=component.violation(subject, component.ours, draw))
    if torch.device(task.device).type != "cpu" and _is_random(task.component, task.index):
        return replace(result, status="skipped", note="dropout: the random numbers differ on this device by design")
    if task.kind == "precision":
        return replace(result, precision=compare_precision(component, subject, DTYPES[task.dtype], device=task.device))
    compare = compare_definition if task.kind == "definition" else compare_oracle
    return replace(result, equality=compare(component, subject, device=task.device))


def _judged(result: Check) -> Check:
    if result.status == "skipped":
        return result
    measured = result.equality or result.precision
    if measured is not None:
        passed, note = measured.passed, str(measured)
    elif result.violation is not None:
        passed, note = result.violation <= tolerance(), f"violated by {result.violation:.1e} > {tolerance():.1e}"
    else:
        passed, note = not result.note, result.note
    return replace(result, status="passed" if passed else "failed", note="" if passed else note)


@functools.cache
def _is_random(name: str, index: int) -> bool:
    """Whether the builtin draws random numbers in this case, found out on the CPU."""
    component = COMPONENTS[name]
    return run(component, component.builtin, component.cases[index], torch.float32).is_random


def _told(error: Exception) -> str:
    first_line = re.sub(r" at 0x[0-9a-f]+", "", next(iter(str(error).splitlines()), ""))
    is_reason = isinstance(error, NotImplementedError)
    return first_line if is_reason else f"{type(error).__name__}: {first_line}"
