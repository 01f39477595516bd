"""`scratch-transformer bench`: ours beside PyTorch's builtins, in time and memory, on this machine."""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scratch_transformer.options import Device

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

SUBJECTS = ("attention", "variants", "layers", "training")


@click.group(invoke_without_command=True)
@click.option("--device", type=Device(), default="cpu", show_default=True, help="Where to measure, in torch's terms.")
@click.option(
    "--quick/--full",
    "is_quick",
    default=True,
    help="A selection, in 3 minutes (the default; on a GPU up to 10), or everything, in half an hour.",
)
@click.option("--only", "subjects", type=click.Choice(SUBJECTS), multiple=True, help="Only this subject; repeatable.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default="bench-results",
    show_default=True,
    help="Folder for the JSON, the page and the picture.",
)
@click.option("--wait", "waits", is_flag=True, help="Begin when other processes leave the processors alone.")
@click.option(
    "--minutes",
    type=click.FloatRange(min=0, min_open=True),
    help="Begin no further case after so many; --resume goes on.",
)
@click.option(
    "--resume", "resumes", is_flag=True, help="Go on with the latest such run in the folder, if there is one."
)
@click.pass_context
def bench(
    context: click.Context,
    device: str,
    is_quick: bool,
    subjects: tuple[str, ...],
    out: Path,
    waits: bool,
    minutes: float | None,
    resumes: bool,
) -> None:
    """Measure ours beside PyTorch's builtins, in time and memory.

    Every result is checked before it is timed, and kept as soon as it is there. Results that were taken beside other
    busy processes are marked as such. Exit status: 0 if all of ours were right, 1 if not, 2 if nothing could be
    measured, 3 if cases are left for --resume.
    """
    if context.invoked_subcommand is not None:
        return
    importlib.import_module("matplotlib")  # find out before half an hour of work whether it is there
    _make_folder(out)
    extent, subjects = "quick" if is_quick else "full", subjects or SUBJECTS
    begun = _begun(out, extent, device, subjects) if resumes else None
    _look_around(waits)
    from scratch_transformer.benchmarking import ratios

    document = _run(extent, device, subjects, out, begun, math.inf if minutes is None else 60 * minutes)
    if document["left"]:
        click.echo(f"{document['left']} cases are left: the same command with --resume goes on")
        sys.exit(3)
    written = _write(document, out)
    _print(document)
    for path in written:
        click.echo(path)
    sys.exit(1 if ratios.broken(document) else 0)


@bench.command()
@click.argument("before", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("after", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def compare(before: Path, after: Path) -> None:
    """Compare two runs: BEFORE and AFTER are JSON files that `bench` wrote."""
    from rich.console import Console

    from scratch_transformer.benchmarking import compare as comparing

    first, second = _read(before), _read(after)
    found = comparing.changes(first, second)
    if not found:
        raise click.UsageError("the two runs have no case in common")
    _print_whole(Console(highlight=False), comparing.table(found))
    for difference in comparing.differences(first, second):
        click.echo(f"not the same, {difference}")
    ours = [change for change in found if change.after["is_ours"]]
    builtins = [change for change in found if not change.after["is_ours"]]
    for name, some in (("ours", ours), ("the builtins", builtins)):
        if some:
            click.echo(
                f"{name}: {comparing.mean_speedup(some):.2f} times as fast, by the geometric mean of {len(some)}"
            )


def _look_around(waits: bool) -> None:
    """Others on the processors: waits for them to be done, or warns."""
    from scratch_transformer.benchmarking import others

    if waits:
        others.wait(lambda line: click.echo(line, err=True))
    elif (used := others.now()) >= others.BUSY:
        click.echo(
            f"warning: other processes use {used:.1f} of {os.cpu_count()} processors: the results will be marked; "
            "--wait begins when they are done",
            err=True,
        )


def _make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.UsageError(f"cannot write to {out}: {error.strerror or error}") from error


def _read(path: Path) -> dict[str, Any]:
    from scratch_transformer.benchmarking.results import SCHEMA

    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise click.UsageError(f"{path} is no JSON: {error}") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise click.UsageError(f"{path} was not written by scratch-transformer bench")
    return document


def _begun(out: Path, extent: str, device: str, subjects: tuple[str, ...]) -> dict[str, Any] | None:
    """The document of the latest such run in the folder, or None.

    Raises:
        UsageError: it was measured on another machine, or with other versions.
    """
    from scratch_transformer.benchmarking import results
    from scratch_transformer.benchmarking.machine import surroundings

    wanted = {"schema": results.SCHEMA, "extent": extent, "device": device, "subjects": list(subjects)}
    found = []
    for path in out.glob("*.json"):
        with contextlib.suppress(ValueError):
            document = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(document, dict) and wanted.items() <= document.items():
                found.append((document["date"], path, document))
    if not found:
        return None
    _, path, document = max(found, key=lambda each: each[:2])
    for name, value in surroundings(device).items():
        before = document["environment"].get(name)
        if before != value:
            raise click.UsageError(f"cannot go on with {path}: {name} was {before}, and is {value}")
    return document


def _run(
    extent: Any, device: str, subjects: tuple[str, ...], out: Path, begun: dict[str, Any] | None, seconds: float
) -> dict[str, Any]:
    """The document, with a progress bar where somebody watches. After each case it is in its file."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from scratch_transformer.benchmarking import run

    console = Console(stderr=True)
    columns = (TextColumn("{task.description:60}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # without a thread of its own that draws it: attention looks whether it is alone
    with Progress(
        *columns, console=console, transient=True, auto_refresh=False, disable=not console.is_terminal
    ) as progress:
        total = run.steps(extent, device, subjects)
        bar = progress.add_task("starting", total=total)
        started = -1 if begun is None else total - begun["left"] - 2

        def report(name: str) -> None:
            nonlocal started
            started += 1
            progress.update(bar, completed=started, description=name, refresh=True)

        return run.run(extent, device, subjects, report, lambda document: _keep(document, out), begun, seconds)


def _keep(document: dict[str, Any], out: Path) -> Path:
    """The JSON as it is now."""
    from scratch_transformer import files
    from scratch_transformer.benchmarking import results

    path = out / f"{results.file_name(document)}.json"
    files.write(path, json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    return path


def _write(document: dict[str, Any], out: Path) -> list[Path]:
    """The JSON, the page, and the pictures of the ratios and of the memory."""
    from scratch_transformer import files
    from scratch_transformer.benchmarking import plots, report, results

    figures, stem = plots.all_plots(document), results.file_name(document)
    written = [_keep(document, out), out / f"{stem}.html"]
    files.write(written[-1], report.page(document, figures))
    for name, figure in figures.items():
        written.append(out / f"{stem}-{name}.png")
        figure.savefig(written[-1], dpi=130, bbox_inches="tight")
    return written


def _print(document: dict[str, Any]) -> None:
    """The table, what was not timed, and what is broken."""
    from rich.console import Console
    from rich.markup import escape

    from scratch_transformer.benchmarking import ratios, report, results

    console = Console(highlight=False)
    _print_whole(console, report.table(document))
    if said := results.disturbance(document):
        console.print(said, style="bold red", soft_wrap=True)
    for (backend, status, reason), count in ratios.left_out(document["rows"]).items():
        console.print(escape(f"{backend}: {status} in {count} cases: {reason}"), style="dim", soft_wrap=True)
    for row in ratios.broken(document):
        console.print(
            escape(f"{row['backend']} {row['status']} in {row['case']}: {row['reason']}"),
            style="bold red",
            soft_wrap=True,
        )


def _print_whole(console: Console, drawn: Table) -> None:
    """Rather run over the edge than cut numbers."""
    usual, console.width = console.width, 1000
    console.width = max(usual, console.measure(drawn).maximum)
    console.print(drawn)
    console.width = usual
