"""Two runs beside each other: which cases became faster or slower, of the same rival, and by more than their spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scratch_transformer.benchmarking import ratios, report
from scratch_transformer.benchmarking.ratios import Row
from scratch_transformer.benchmarking.timing import geometric_mean

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Change:
    """One rival in one case, in two runs. speedup: the time before over the time after."""

    before: Row
    after: Row
    speedup: float

    @property
    def is_clear(self) -> bool:
        """Whether the middle three fifths of the rounds do not overlap."""
        a, b = self.before["seconds"], self.after["seconds"]
        return a["p20"] > b["p80"] or b["p20"] > a["p80"]


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[Change]:
    """For every rival and case that both runs timed, in the order of the second."""
    known = {(row["case"], row["backend"]): row for row in before["rows"] if row["status"] == "timed"}
    found = []
    for row in after["rows"]:
        earlier = known.get((row["case"], row["backend"]))
        if row["status"] == "timed" and earlier is not None:
            found.append(Change(earlier, row, earlier["seconds"]["median"] / row["seconds"]["median"]))
    return found


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What differs between the machines and versions of two runs: a warning that their times may not be comparable."""
    first, second = before["environment"], after["environment"]
    names = [name for name in second if name not in ("used by others", "scratch_transformer")]
    return [f"{name}: {first.get(name)} → {second[name]}" for name in names if first.get(name) != second[name]]


def mean_speedup(found: Sequence[Change]) -> float:
    """Over all cases and rivals given."""
    return geometric_mean([change.speedup for change in found])


def table(found: Sequence[Change]) -> Table:
    """Every change, those within the spread dimmed."""
    from rich import box
    from rich.table import Table

    drawn = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("case", "rival", "before", "after", "speedup", ""):
        drawn.add_column(
            heading, justify="right" if heading in ("before", "after", "speedup") else "left", no_wrap=True
        )
    for change in found:
        row = change.after
        name = f"{ratios.label(row)}, {row['dtype']}, {row['direction']}"
        verdict = ("faster" if change.speedup > 1 else "slower") if change.is_clear else "within the spread"
        style = "dim" if not change.is_clear else "green" if change.speedup > 1 else "red"
        times = report.time(change.before), report.time(row)
        drawn.add_row(name, row["backend"], *times, f"{change.speedup:.2f}", verdict, style=style)
    return drawn
