"""`scratch-transformer bench`: ours beside PyTorch's builtins, in time and memory, on this machine."""

from __future__ import annotations

import importlib
import json
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
    help="A selection, in 3 minutes (the default; on a GPU up to 10), or everything, in an hour.",
)
@click.option("--only", "subjects", type=click.Choice(SUBJECTS), multiple=True, help="Only this subject; repeatable.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default="bench-results",
    show_default=True,
    help="Folder for the JSON, the page and the picture.",
)
@click.pass_context
def bench(context: click.Context, device: str, is_quick: bool, subjects: tuple[str, ...], out: Path) -> None:
    """Measure ours beside PyTorch's builtins, in time and memory.

    Every result is checked before it is timed. Exit status: 0 if all of ours were right, 1 if not, 2 if nothing could
    be measured.
    """
    if context.invoked_subcommand is not None:
        return
    importlib.import_module("matplotlib")  # find out before an hour of work whether it is there
    _make_folder(out)
    from scratch_transformer.benchmarking import ratios

    document = _run("quick" if is_quick else "full", device, subjects or SUBJECTS, out)
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


def _run(extent: Any, device: str, subjects: tuple[str, ...], out: Path) -> dict[str, Any]:
    """The document, with a progress bar where somebody watches. After each case it is in its file."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from scratch_transformer.benchmarking import run

    console = Console(stderr=True)
    columns = (TextColumn("{task.description:60}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("starting", total=run.steps(extent, device, subjects))
        started = -1

        def report(name: str) -> None:
            nonlocal started
            started += 1
            progress.update(bar, completed=started, description=name)

        return run.run(extent, device, subjects, report, lambda document: _keep(document, out))


def _keep(document: dict[str, Any], out: Path) -> Path:
    """The JSON as it is now."""
    from scratch_transformer.benchmarking import results
    from scratch_transformer.conformance import files

    path = out / f"{results.file_name(document)}.json"
    files.write(path, json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    return path


def _write(document: dict[str, Any], out: Path) -> list[Path]:
    """The JSON, the page, and the pictures of the ratios and of the memory."""
    from scratch_transformer.benchmarking import plots, report, results
    from scratch_transformer.conformance import files

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

    from scratch_transformer.benchmarking import ratios, report

    console = Console(highlight=False)
    _print_whole(console, report.table(document))
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
