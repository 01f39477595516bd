"""Results as plain numbers: a row for every rival in every case, and the document of a whole run, ready for JSON."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Sequence
from typing import Any

from scratch_transformer.benchmarking.machine import Limits, description
from scratch_transformer.benchmarking.others import BUSY, Watch
from scratch_transformer.benchmarking.race import Result
from scratch_transformer.benchmarking.timing import spread, timer_of

SCHEMA = "scratch_transformer benchmark"
SCHEMA_VERSION = 1

DEFINITIONS = {
    "ratio": "the best builtin's time over ours, round by round, in one run in which all took turns: above 1, ours is "
    "faster. The median, and in brackets the values below which a fifth and four fifths of the rounds lie. The best "
    "builtin is the one with the smallest median in this case.",
    "TFLOP/s": "the operations that the equation needs, whatever is recomputed, over the median time: "
    "4 B H D forward for every pair of a query and a key that may meet, 2.5 times that backward.",
    "% of GEMM": "TFLOP/s over the measured rate of a large product of square matrices in the same dtype, or in "
    "float32 where that is faster.",
    "GB/s": "every input read once and every output written once, over the median time.",
    "memory": "the peak above inputs and outputs of one call: on a GPU as PyTorch counts it, on the CPU the resident "
    "memory of a fresh process.",
    "error": "‖result − golden‖∞ / ‖golden‖∞ against the plain equations in float64, the worst of the output and all "
    "gradients; checked before anything was timed. With dropout the results' scatter is checked in its place.",
}


def row(result: Result, device: str, limits: Limits) -> dict[str, Any]:
    """One rival in one case, without its single rounds: what pytest-benchmark keeps as extra_info."""
    facts = {**result.case.facts, "backend": result.rival.name, "is_ours": result.rival.is_ours}
    facts |= {"device": device, "status": result.status}
    if result.status != "timed":
        return facts | {"reason": result.reason}
    facts |= {"timer": timer_of(device).__name__, "error": result.error, "peak_memory": result.peak_memory}
    return facts | (speed(result, limits) if result.durations else {})


def speed(result: Result, limits: Limits) -> dict[str, Any]:
    """What follows from the durations."""
    case, seconds = result.case, spread(result.durations)
    flops_per_second = case.flops / seconds.median
    return {
        "seconds": {"median": seconds.median, "p20": seconds.p20, "p80": seconds.p80},
        "TFLOP/s": flops_per_second / 1e12,
        "tokens/s": case.tokens / seconds.median,
        "GB/s": case.bytes / seconds.median / 1e9,
        "percent_of_gemm": 100 * flops_per_second / limits.rate(case.dtype),
        "flops": case.flops,
        "bytes": case.bytes,
    }


def document(
    results: Sequence[Result],
    memory: Sequence[Result],
    device: str,
    extent: str,
    limits: Limits,
    subjects: Sequence[str] = (),
) -> dict[str, Any]:
    """Everything about a run, which may have only begun.

    watched: how long times were taken, and what others used then, in seconds of one processor. left: cases to come.
    """
    found: dict[str, Any] = {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "extent": extent,
        "device": device,
        "subjects": list(subjects),
        **description(device, limits),
        "watched": {"seconds": 0.0, "used": 0.0},
        "left": 0,
        "definitions": DEFINITIONS,
        "rows": [],
        "memory": [],
    }
    append(found, "rows", results, limits)
    append(found, "memory", memory, limits)
    return found


def append(document: dict[str, Any], part: str, results: Sequence[Result], limits: Limits) -> None:
    """Further results for a document. part: rows, which keep their single rounds, or memory."""
    for result in results:
        durations = {"durations": result.durations} if part == "rows" else {}
        document[part].append(row(result, document["device"], limits) | durations)


def note_others(document: dict[str, Any], watch: Watch) -> None:
    """What others have used of the processors so far."""
    document["watched"] = {"seconds": round(watch.seconds(), 1), "used": round(watch.used(), 1)}
    document["environment"]["used by others"] = round(watch.others(), 2)


def digits(value: float, count: int = 3) -> str:
    """A number to so many digits, without an exponent."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    decimals = max(0, count - 1 - math.floor(math.log10(abs(value))))
    return f"{value:.{decimals}f}"


def size(bytes_: float | None) -> str:
    """Bytes in the unit that suits them."""
    if bytes_ is None:
        return "–"
    for unit in ("B", "KiB", "MiB"):
        if abs(bytes_) < 1024:
            return f"{digits(bytes_)} {unit}" if bytes_ else "0"
        bytes_ /= 1024
    return f"{digits(bytes_)} GiB"


def disturbance(document: dict[str, Any]) -> str:
    """Who else used the processors, in words; empty if nobody worth mentioning, or on a GPU."""
    used = document["environment"].get("used by others")
    if document["device"] != "cpu" or not isinstance(used, float) or used < BUSY:
        return ""
    processors = document["environment"]["processors"]
    return f"measured beside other processes, which used {used:.1f} of {processors} processors: not to be relied on"


def file_name(document: dict[str, Any]) -> str:
    """Date, device and processor, for a file without its ending: 2026-11-21-cpu-amd-epyc-2-threads."""
    where = document["environment"]
    machine = where["processor"] if document["device"] == "cpu" else where["device"].partition("(")[2].partition(",")[0]
    words = [document["date"][:10], document["device"], machine]
    words += [f"{where['threads']} threads"] if document["device"] == "cpu" else []
    return re.sub(r"[^a-z0-9]+", "-", " ".join(words).lower()).strip("-")
