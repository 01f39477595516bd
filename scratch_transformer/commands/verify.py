"""`scratch-transformer verify`: every component against its PyTorch builtin, on this machine."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from scratch_transformer.options import Device, refuse_unwritable

if TYPE_CHECKING:
    from rich.progress import Progress

    from scratch_transformer.conformance.training import Parity
    from scratch_transformer.conformance.verify import Check, Task

DTYPES = ("float64", "float32", "bfloat16", "float16")


@click.command()
@click.argument("components", nargs=-1, metavar="[COMPONENT]...")
@click.option(
    "--device",
    type=Device(),
    default="cpu",
    show_default=True,
    help="Where to compare, in torch's terms: cpu, cuda, ...",
)
@click.option("--dtype", "dtypes", type=click.Choice(DTYPES), multiple=True, help="Only this dtype; repeatable.")
@click.option("--training", is_flag=True, help="Train ours and torch's side by side too: a minute, on the CPU.")
@click.option("--json", "json_file", type=click.Path(), help="Write all numbers to this file, as a certificate.")
@click.option("--html", "html_file", type=click.Path(), help="Write a page for people to this file.")
def verify(
    components: tuple[str, ...],
    device: str,
    dtypes: tuple[str, ...],
    training: bool,
    json_file: str | None,
    html_file: str | None,
) -> None:
    """Compare every COMPONENT (all, if none is named) with its PyTorch builtin.

    Exit status: 0 if everything agrees, 1 if anything does not, 2 if it could not be tried.
    """
    refuse_unwritable(json_file or None, html_file or None)
    from scratch_transformer import files
    from scratch_transformer.conformance import certificate, report, summary
    from scratch_transformer.conformance.verify import plan

    names = {_component_name(name) for name in components}
    checks = _run(plan(names, dtypes, device))
    parity = _train() if training else None
    document = certificate.certificate(checks, device, parity)
    if json_file:
        files.write(json_file, certificate.to_json(document))
    if html_file:
        files.write(html_file, report.page(document))
    _print(checks, document)
    sys.exit(0 if summary.has_passed(checks, parity) else 1)


def _component_name(given: str) -> str:
    """The table's spelling of a name, whatever its case."""
    from scratch_transformer.conformance.table import COMPONENTS

    known = {name.lower(): name for name in COMPONENTS}
    if given.lower() in known:
        return known[given.lower()]
    close = [known[name] for name in difflib.get_close_matches(given.lower(), known, n=1)]
    suggestion = f" Did you mean {close[0]}?" if close else ""
    raise click.UsageError(f"no component {given!r}.{suggestion}\nKnown are: {', '.join(COMPONENTS)}.")


def _run(tasks: Sequence[Task]) -> list[Check]:
    """All checks, with a progress bar where somebody watches."""
    from scratch_transformer.conformance.verify import verify as checks_of

    checks = []
    with _progress() as progress:
        bar = progress.add_task("starting", total=len(tasks))
        for check in checks_of(tasks, workers=_workers()):
            checks.append(check)
            progress.update(bar, advance=1, description=check.task.component)
    return checks


def _train() -> Parity:
    """The training run, with a progress bar where somebody watches."""
    from scratch_transformer.conformance import training

    with _progress() as progress:
        bar = progress.add_task("training", total=training.FULL.steps)
        return training.train(progress=lambda step: progress.update(bar, completed=step))


def _progress() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description:28}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def _workers() -> int:
    """Processes that this one may use, at most four."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(usable, 4)


def _print(checks: list[Check], document: dict) -> None:
    """The table, what its numbers mean, failures, the training, what was left out, versions, and the verdict."""
    from rich.console import Console
    from rich.markup import escape

    from scratch_transformer.conformance import report

    console, wide, drawn = Console(highlight=False), Console(highlight=False), report.table(checks)
    wide.width = 1000
    wide.width = max(console.width, wide.measure(drawn).maximum)  # rather run over the edge than cut numbers
    wide.print(drawn)
    for name, meaning in document["definitions"].items():
        console.print(f"[bold]{name}[/]: {escape(meaning)}", style="dim")
    _print_failures(checks)
    if "training" in document:
        console.print(report.training_table(document["training"]))
        console.print(escape(document["training"]["sentence"]), soft_wrap=True)
    for reason, count in document["skipped"].items():
        console.print(f"{count} skipped: {escape(reason)}", style="dim")
    where, verdict = document["environment"], document["verdict"]
    versions = " · ".join(f"{name} {where[name]}" for name in ("torch", "Python", "NumPy"))
    machine = f"{where['device']} · {where['processor']} · {where['platform']}"
    console.print("\n" + escape(versions), escape(machine), sep="\n", soft_wrap=True)  # a line each, however long
    colour = "green" if verdict["passed"] else "red"
    console.print(escape(verdict["sentence"]), style=f"bold {colour}", soft_wrap=True)


def _print_failures(checks: list[Check]) -> None:
    """Every failed check, and how to repeat it."""
    from scratch_transformer.conformance.summary import reproduction

    failures = [check for check in checks if check.status == "failed"]
    if failures:
        click.secho(f"{len(failures)} failed:", bold=True)
    for check in failures:
        click.echo(
            f"  {check.task.component}, {check.task.kind}, {check.task.dtype}, {check.description}: {check.note}"
        )
        click.echo(f"    to repeat: {reproduction(check)}")
