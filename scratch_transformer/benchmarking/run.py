"""A whole run: the machine's limits, every case of the grid, and how memory grows with length."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from scratch_transformer.benchmarking import grid, memory, others, results
from scratch_transformer.benchmarking.attention_case import AttentionCase
from scratch_transformer.benchmarking.case import Case, Rival
from scratch_transformer.benchmarking.machine import Limits, limits
from scratch_transformer.benchmarking.race import Result, race

QUADRATIC = {"forward": 5, "backward": 8, "both": 8}
"""How many copies of the T × S matrix of every head, in float32, they hold at most who hold any; measured."""

HOLDS_THE_MATRIX = ("ours naive", "torch math")

NO_TIME = "a quick run was over"

COMPILED = "compiles for long; only with --full"

Progress = Callable[[str], None]

Keep = Callable[[dict[str, Any]], object]

AnyCase = TypeVar("AnyCase", bound=Case)


def run(
    extent: grid.Extent,
    device: str,
    subjects: Sequence[str],
    progress: Progress = lambda done: None,
    keep: Keep = lambda document: None,
    begun: dict[str, Any] | None = None,
    seconds: float = math.inf,
) -> dict[str, Any]:
    """Everything of these subjects, as the document of `results.document`.

    progress: told the name of each case. keep: given the document so far after each, for whatever ends a run early.
    begun: the document of such a run, with which this one goes on. seconds: after which no further case is begun; how
    many are left stands in the document.
    """
    chosen, start = plan(extent, device, subjects), time.monotonic()
    stop, end = start + seconds, start + grid.enough(extent, device)
    progress("the machine's limits")
    document = begun or new(chosen, extent, device, subjects)
    found = Limits(**document["limits"])
    of_lengths = missing(document, "memory", lengths(extent, device, subjects))
    timed = missing(document, "rows", chosen)
    document["left"] = len(of_lengths) + len(timed)
    for of_length in of_lengths:
        if time.monotonic() >= stop:
            return document
        progress(f"memory of {of_length.name}")
        results.append(document, "memory", weigh(of_length, device, extent), found)
        document["left"] -= 1
        keep(document)
    watch = others.Watch(**document["watched"])  # from here on times are taken, and no other process of ours works
    for case in timed:
        if time.monotonic() >= stop:
            break
        progress(case.name)
        if time.monotonic() < end:
            raced = race(case, device, grid.EFFORT[extent], left_out(case, device, extent, found))
        else:
            raced = [Result(case, rival, "left out", NO_TIME) for rival in case.rivals(device)]
        results.append(document, "rows", raced, found)
        results.note_others(document, watch)
        document["left"] -= 1
        keep(document)
    return document


def new(chosen: Sequence[Case], extent: grid.Extent, device: str, subjects: Sequence[str]) -> dict[str, Any]:
    """The document of a run that has only measured the machine's limits."""
    found = limits(device, sorted({case.dtype for case in chosen}))
    return results.document([], [], device, extent, found, subjects)


def missing(document: dict[str, Any], part: str, cases: Sequence[AnyCase]) -> list[AnyCase]:
    """The cases that have no row yet in a part of a document, rows or memory."""
    done = {row["case"] for row in document[part]}
    return [case for case in cases if case.name not in done]


def lengths(extent: grid.Extent, device: str, subjects: Sequence[str]) -> list[AttentionCase]:
    """The cases in which memory is weighed, untimed."""
    return grid.memory(extent, device) if "attention" in subjects else []


def plan(extent: grid.Extent, device: str, subjects: Sequence[str]) -> list[Case]:
    """The cases of these subjects."""
    return [case for subject in subjects for case in grid.cases(subject, extent, device)]


def steps(extent: grid.Extent, device: str, subjects: Sequence[str]) -> int:
    """How often `run` reports progress."""
    return 1 + len(plan(extent, device, subjects)) + len(lengths(extent, device, subjects))


def left_out(case: Case, device: str, extent: grid.Extent, found: Limits | None = None) -> dict[str, str]:
    """Who need not be tried, and why: who compiles for long, whose products alone would take too long, and who would
    fill half of the memory: nobody is let near the machine's own limit.
    """
    without = {rival.name: COMPILED for rival in case.rivals(device) if rival.compiles and extent != "full"}
    if isinstance(case, AttentionCase):
        needed = 4 * QUADRATIC[case.direction] * case.B * case.H * case.T * case.keys
        if needed > memory.available(device) / 2:
            without |= dict.fromkeys(HOLDS_THE_MATRIX, f"would take about {results.size(needed)}")
    seconds = case.flops / found.gemm[case.dtype] if found else 0
    if seconds > grid.EFFORT[extent].seconds:
        without["torch math"] = (
            f"products in {case.dtype} are so slow here that it would take {seconds:.0f} s or longer"
        )
    return without


def weigh(case: AttentionCase, device: str, extent: grid.Extent) -> list[Result]:
    """The memory of every rival, untimed."""
    without = left_out(case, device, extent)
    return [
        Result(case, rival, "left out", without[rival.name]) if rival.name in without else _weigh(case, rival, device)
        for rival in case.rivals(device)
    ]


def _weigh(case: AttentionCase, rival: Rival, device: str) -> Result:
    try:
        return Result(case, rival, "timed", peak_memory=memory.peak(case, rival, device))
    except memory.NotMeasured as error:
        return Result(case, rival, "unsupported", str(error))
