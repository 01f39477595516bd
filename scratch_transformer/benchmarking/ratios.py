"""What a run says: case by case, how our time compares with the best builtin's, and the mean over the cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scratch_transformer.benchmarking.timing import Spread, geometric_mean, ratio

Row = dict[str, Any]

OURS = ("ours auto", "ours", "ours compiled")
"""Rivals whose ratio to PyTorch's is reported; other names force one of our algorithms."""


@dataclass(frozen=True)
class Comparison:
    """Ours beside the best builtin in one case. builtin: None if none could do it; ratio: then None as well."""

    ours: Row
    builtin: Row | None
    ratio: Spread | None


def by_case(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of every case, in order."""
    grouped: dict[str, list[Row]] = {}
    for row in rows:
        grouped.setdefault(row["case"], []).append(row)
    return grouped


def comparisons(rows: Sequence[Row]) -> list[Comparison]:
    """For every case in which ours was timed: what a user gets who forces no algorithm. Compiled layers meet
    compiled ones, and others meet others.
    """
    found = []
    for of_case in by_case(rows).values():
        timed = [row for row in of_case if row["status"] == "timed"]
        for ours in (row for row in timed if row["backend"] in OURS):
            kind = [r for r in timed if not r["is_ours"] and is_compiled(r) == is_compiled(ours)]
            best = min(kind, key=lambda row: row["seconds"]["median"], default=None)
            found.append(Comparison(ours, best, ratio(best["durations"], ours["durations"]) if best else None))
    return found


def is_compiled(row: Row) -> bool:
    """Whether it is a layer under torch.compile."""
    return row["backend"].endswith(" compiled")


def family(row: Row) -> tuple[str, ...]:
    """Cases whose ratios are averaged: of one subject, dtype and direction, full or causal."""
    if row["subject"] != "attention":
        return (row["subject"], row["dtype"], row["direction"], *["compiled"] * is_compiled(row))
    if is_variant(row):
        return "variants", row["dtype"], row["direction"]
    return "attention", row["dtype"], row["direction"], "causal" if row["is_causal"] else "full"


def is_variant(row: Row) -> bool:
    """Whether it is more than plain or causal attention of as many keys as queries."""
    shape = row["shape"]
    return row["variant"] != "none" or shape["G"] != shape["H"] or shape["S"] != shape["T"]


def means(found: Sequence[Comparison]) -> dict[tuple[str, ...], tuple[float, int]]:
    """For every family: the geometric mean of the medians, and of how many cases."""
    grouped: dict[tuple[str, ...], list[float]] = {}
    for comparison in found:
        if comparison.ratio is not None:
            grouped.setdefault(family(comparison.ours), []).append(comparison.ratio.median)
    return {name: (geometric_mean(values), len(values)) for name, values in grouped.items()}


def label(row: Row) -> str:
    """A case in a few characters: 1·8·1024·64 causal; the dtype and direction are said elsewhere."""
    shape = row["shape"]
    if row["subject"] != "attention":
        return f"{row['layer']} {shape['B']}·{shape['T']}·{shape['d_model']}"
    sizes = f"{shape['B']}·{shape['H']}·{shape['T']}·{shape['D']}"
    words = [f"{shape['S']} keys"] * (shape["S"] != shape["T"]) + [f"{shape['G']} groups"] * (shape["G"] != shape["H"])
    words += ["causal"] * row["is_causal"] + [row["variant"]] * (row["variant"] != "none")
    return " ".join([sizes, *words])


def broken(document: dict[str, Any]) -> list[Row]:
    """Rows of ours that are wrong or broke down: a run that has any has failed."""
    return [
        row for row in document["rows"] + document["memory"] if row["is_ours"] and row["status"] in ("wrong", "failed")
    ]


def left_out(rows: Sequence[Row]) -> dict[tuple[str, str, str], int]:
    """Who did not run, with what status and why, and in how many cases."""
    counts: dict[tuple[str, str, str], int] = {}
    for row in rows:
        if row["status"] != "timed":
            key = row["backend"], row["status"], row["reason"]
            counts[key] = counts.get(key, 0) + 1
    return counts
