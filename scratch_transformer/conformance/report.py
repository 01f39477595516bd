"""A verification for people: a table for the terminal, and a page as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from scratch_transformer import pages
from scratch_transformer.conformance.summary import Summary, by_component, summarise
from scratch_transformer.conformance.training import chart
from scratch_transformer.conformance.verify import Check

if TYPE_CHECKING:
    from rich.table import Table

WORST = 5
"""How many cases of each kind the page shows as the worst."""


# ---- The page ----


def page(certificate: dict[str, Any]) -> str:
    """The certificate for people: one self-contained HTML document."""
    drawing = chart.draw(certificate["training"]) if "training" in certificate else None
    filters = {"error": error, "ratio": ratio}
    return pages.render(__package__, filters, certificate=certificate, worst=_worst(certificate), chart=drawing)


def _worst(certificate: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The cases nearest to their limit, of each kind."""
    kinds = {"definition": ("output_error", "gradient_error"), "oracle": ("output_error", "gradient_error")}
    kinds |= dict.fromkeys(("float32", "bfloat16", "float16"), ("output_ratio", "gradient_ratio"))
    found: dict[str, list[dict[str, Any]]] = {}
    for kind, measures in kinds.items():
        rows = [
            {"component": component["name"], "case": case["description"], "values": [case[kind][m] for m in measures]}
            for component in certificate["components"]
            for case in component["cases"]
            if measures[0] in case.get(kind, {})
        ]
        found[kind] = sorted(rows, key=lambda row: max(map(float, row["values"])), reverse=True)[:WORST]
    return {kind: rows for kind, rows in found.items() if rows}


# ---- The table ----


def table(checks: Sequence[Check]) -> Table:
    """A row for every component and, where there are several, one for all."""
    from rich import box
    from rich.table import Table

    summaries = [summarise(name, group) for name, group in by_component(checks).items()]
    drawn = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_footer=len(summaries) > 1)
    total = _cells(summarise("all", checks))
    for heading, footer in zip(_HEADINGS, total, strict=True):
        drawn.add_column(heading, footer, justify="left" if heading == "component" else "right", no_wrap=True)
    for summary in summaries:
        drawn.add_row(*_cells(summary), style="" if summary.passed else "bold red")
    return drawn


_HEADINGS = (
    "component",
    "cases",
    "bitwise\nequal",
    "float64\nout",
    "error\ngrad",
    "oracle\ncases",
    "error\nout",
    "\ngrad",
    "low\nout",
    "precision\ngrad",
    "ratio\nmean",
    "errors\nrefused",
    "invariants",
    "",
)
"""What spans several columns is written over them word by word; out: outputs, grad: gradients."""


def _cells(s: Summary) -> tuple[str, ...]:
    return (
        s.name,
        str(s.cases),
        f"{s.bitwise}" if s.definitions else "–",
        error(s.output_error),
        error(s.gradient_error),
        f"{s.oracle_cases}" if s.oracle_cases else "–",
        error(s.oracle_output_error),
        error(s.oracle_gradient_error),
        ratio(s.output_ratio),
        ratio(s.gradient_ratio),
        ratio(s.mean_ratio),
        str(s.errors),
        str(s.invariants) if s.invariants else "–",
        "pass" if s.passed else "FAIL",
    )


def training_table(training: dict[str, Any]) -> Table:
    """The losses of both at a few steps, of the dictionary of `training.summary.document`."""
    from rich import box
    from rich.table import Table

    drawn = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("step", "ours, loss", "torch, loss", "largest difference so far"):
        drawn.add_column(heading, justify="right", no_wrap=True)
    for step, ours, builtin, difference in training["rows"]:
        drawn.add_row(str(step), f"{float(ours):.16f}", f"{float(builtin):.16f}", error(difference))
    return drawn


def error(value: float | str | None) -> str:
    """A relative error to one digit."""
    return "–" if value is None else "0" if float(value) == 0 else f"{float(value):.0e}"


def ratio(value: float | str | None) -> str:
    """A ratio of errors to two digits behind the point."""
    return "–" if value is None else f"{float(value):.2f}"
