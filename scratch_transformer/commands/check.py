"""`scratch-transformer check`: a learner's own Transformer against PyTorch's, and its mistakes by name."""

from __future__ import annotations

import ast
import sys
from typing import TYPE_CHECKING, Any

import click

from scratch_transformer.options import refuse_unwritable

if TYPE_CHECKING:
    from scratch_transformer.kit.report.finding import Report


@click.command()
@click.argument("target", required=False)
@click.option("--as", "as_kind", metavar="KIND", help="What TARGET is, if its name does not tell: MultiheadAttention.")
@click.option("--init", metavar="ARGS", help='Arguments of the constructor: --init "d_model=512, h=8".')
@click.option("--adapter", type=click.Path(dir_okay=False), help="Functions of yours that build and call components.")
@click.option("--json", "json_file", type=click.Path(), help="Write verdicts and mistakes to this file.")
@click.option("--html", "html_file", type=click.Path(), help="Write a page for people to this file.")
@click.option("--strict", is_flag=True, help="Exit status 1 for harmless deviations and unknown mismatches too.")
@click.option("--list", "list_all", is_flag=True, help="Show all kinds of components and all known mistakes.")
def check(
    target: str | None,
    as_kind: str | None,
    init: str | None,
    adapter: str | None,
    json_file: str | None,
    html_file: str | None,
    strict: bool,
    list_all: bool,
) -> None:
    """Check your own Transformer against PyTorch's, and name its mistakes.

    TARGET is a file, a notebook, a folder or an importable module; a colon and a name behind it check one class or
    function only: my_model.py:MyAttention. Its code runs in a process of its own, without network, and may not write.

    Exit status: 0 if there are no mistakes, 1 if there are, 2 if nothing could be checked.
    """
    if list_all:
        _list()
        return
    if not target:
        raise click.UsageError("name a file, a notebook, a folder or a module to check (or --list)")
    refuse_unwritable(json_file or None, html_file or None)
    arguments = _arguments(init)
    report = _run(target, _kind(as_kind), arguments, adapter)
    _write(report, json_file, html_file, strict)
    from rich.console import Console

    from scratch_transformer.kit.report.text import show

    show(report, Console(highlight=False))
    sys.exit(report.status(strict))


def _run(target: str, as_kind: str | None, init: dict[str, Any], adapter: str | None) -> Report:
    """Everything in the child process, with a progress bar where somebody watches."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from scratch_transformer.kit import process
    from scratch_transformer.kit.discover.target import NotFound, find

    try:
        sources = find(target)
        adapters = find(adapter).sources[0].path if adapter else None
    except NotFound as error:
        raise click.UsageError(str(error)) from error
    console = Console(stderr=True)
    columns = (TextColumn("{task.description:28}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("starting", total=None)

        def advance(component: str, number: int, total: int) -> None:
            progress.update(bar, description=component, completed=number, total=total)

        report = process.check(sources, target, as_kind, init, adapters, advance)
    if sources.only and not any(result.name == sources.only for result in report.results):
        report.problems.append(
            f"{sources.only}: no class or function of this name that looks like a component; say what it is with --as"
        )
    return report


def _arguments(init: str | None) -> dict[str, Any]:
    """d_model=512, h=8 -> a dictionary. Only literals: it is no place for code."""
    if not init:
        return {}
    try:
        call = ast.parse(f"f({init})", mode="eval").body
        assert isinstance(call, ast.Call) and not call.args
        return {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    except (SyntaxError, ValueError, AssertionError) as error:
        raise click.UsageError(f'--init must look like "d_model=512, h=8", but is {init!r}') from error


def _kind(given: str | None) -> str | None:
    if given is None:
        return None
    from scratch_transformer.kit.inprocess import kind_called

    try:
        return kind_called(given)
    except ValueError as error:
        raise click.UsageError(f"--as: {error}") from error


def _write(report: Report, json_file: str | None, html_file: str | None, strict: bool) -> None:
    from scratch_transformer import files
    from scratch_transformer.kit.report.text import page, to_json

    if json_file:
        files.write(json_file, to_json(report, strict))
    if html_file:
        files.write(html_file, page(report, strict))


def _list() -> None:
    from rich.console import Console
    from rich.markup import escape

    from scratch_transformer.kit.kinds import KINDS
    from scratch_transformer.kit.mistakes import MISTAKES

    console = Console(highlight=False)
    console.print("[bold]Components[/]")
    for kind in KINDS.values():
        console.print(f"  [bold]{kind.name}[/]: {escape(kind.what)}")
    console.print("\n[bold]Mistakes[/] (scratch-transformer explain LN1 teaches one)")
    for mistake in MISTAKES.values():
        mark = "" if mistake.severity == "mistake" else f" [dim]({mistake.severity})[/]"
        console.print(f"  [bold]{mistake.id:4}[/] {escape(mistake.title)}{mark}")
