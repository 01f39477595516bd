"""A run for people: tables for the terminal, and one self-contained page with the plots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scratch_transformer import pages
from scratch_transformer.benchmarking import plots, ratios, results
from scratch_transformer.benchmarking.ratios import Comparison, Row
from scratch_transformer.benchmarking.results import digits, size
from scratch_transformer.benchmarking.timing import Spread

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

HEADINGS = (
    "case",
    "ours",
    "best builtin",
    "",
    "ratio",
    "TFLOP/s",
    "% of GEMM",
    "memory",
    "builtin's",
    "error",
    "builtin's",
)
"""Of the table of ratios; `cells` has what stands under them."""

CAPTIONS = {
    "ratio": "The best builtin's time over ours: right of 1, ours is faster. The dot is the median of the rounds, the "
    "bar spans their middle three fifths, and the black line is the geometric mean of a group.",
    "throughput": "Operations per second over the length of the sequences. The band spans the middle three fifths of "
    "the rounds.",
    "memory": "Peak memory of one call above its inputs and outputs, on logarithmic axes: a line as steep as the "
    "dotted one grows with the square of the length.",
    "roofline": "Every case between what this machine's memory can feed (the slope) and what its matrix products reach "
    "(the roof), both measured in this run.",
}


# ---- What stands in the tables ----


def cells(comparison: Comparison) -> tuple[str, ...]:
    """A case's row under `HEADINGS`."""
    ours, builtin = comparison.ours, comparison.builtin
    theirs = (time(builtin), builtin["backend"].removeprefix("torch ")) if builtin else ("–", "none can")
    return (
        ratios.label(ours),
        time(ours),
        *theirs,
        with_spread(comparison.ratio),
        digits(ours["TFLOP/s"]),
        f"{ours['percent_of_gemm']:.0f}",
        size(ours["peak_memory"]),
        size(builtin["peak_memory"] if builtin else None),
        error(ours["error"]),
        error(builtin["error"] if builtin else None),
    )


def grouped(rows: list[Row]) -> list[tuple[str, str, list[Comparison]]]:
    """Families of cases: the name, the mean in words, and the comparisons."""
    found = ratios.comparisons(rows)
    means = ratios.means(found)
    families = dict.fromkeys(ratios.family(comparison.ours) for comparison in found)
    return [
        (
            ", ".join(name),
            f"{means[name][0]:.2f}" if name in means else "–",
            [c for c in found if ratios.family(c.ours) == name],
        )
        for name in families
    ]


def time(row: Row | None) -> str:
    """The median in milliseconds."""
    return "–" if row is None else f"{digits(1e3 * row['seconds']['median'])} ms"


def with_spread(found: Spread | None) -> str:
    """A ratio and the range of the middle three fifths of its rounds."""
    return "–" if found is None else f"{found.median:.2f} ({found.p20:.2f}–{found.p80:.2f})"


def error(value: float | None) -> str:
    """A relative error to one digit."""
    return "–" if value is None else f"{value:.0e}"


# ---- The terminal ----


def table(document: dict[str, Any]) -> Table:
    """Every case's ratio, by family, each with its mean."""
    from rich import box
    from rich.table import Table

    drawn = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in HEADINGS:
        drawn.add_column(heading, justify="left" if heading in ("case", "") else "right", no_wrap=True)
    for name, mean, found in grouped(document["rows"]):
        drawn.add_row(f"[bold]{name}[/]", *[""] * 3, f"[bold]mean {mean}[/]")
        for comparison in found:
            is_slower = comparison.ratio is not None and comparison.ratio.median < 1
            drawn.add_row(*cells(comparison), style="dim" if is_slower else "")
    return drawn


# ---- The page ----


def page(document: dict[str, Any], figures: dict[str, Figure]) -> str:
    """Everything about a run: one HTML document that needs nothing else."""
    filters = {"size": size, "digits": digits, "error": error, "label": ratios.label, "time": time}
    return pages.render(
        __package__,
        filters,
        document=document,
        headings=HEADINGS,
        families=grouped(document["rows"]),
        cells=cells,
        plots={name: (plots.address(figure), CAPTIONS[name]) for name, figure in figures.items()},
        cases=ratios.by_case(document["rows"]),
        left_out=ratios.left_out(document["rows"]),
        broken=ratios.broken(document),
        disturbance=results.disturbance(document),
    )
