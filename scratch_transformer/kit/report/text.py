"""A check for people: a scoreboard and paragraphs for the terminal, and a page as HTML."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from scratch_transformer.kit.report.finding import Named, Report, Result

if TYPE_CHECKING:
    from rich.console import Console

STYLES = {
    "matches the builtin": "green",
    "matches the paper, not the builtin": "cyan",
    "harmless deviation": "cyan",
    "mistake": "bold red",
    "unknown mismatch": "yellow",
}
MEANINGS = {
    "matches the builtin": "gives PyTorch's numbers, up to rounding",
    "matches the paper, not the builtin": "does as the paper says, where PyTorch does otherwise",
    "harmless deviation": "differs from PyTorch in a way that costs nothing",
    "mistake": "gives other numbers, and the reason is known: see below",
    "unknown mismatch": "gives other numbers, and no known mistake explains them",
    "not written yet": "it raises NotImplementedError",
    "crashed": "its forward stops with an error",
    "could not be built": "its constructor could not be called",
    "took too long": "it did not end in time",
}


def error(value: float | None) -> str:
    """A relative error to one digit."""
    if value is None or not abs(value) < float("inf"):
        return "–"
    return "0" if value == 0 else f"{value:.0e}"


def errors(result: Result) -> str:
    """The error on ordinary input, and in brackets a larger one on input that was made to show mistakes."""
    worst = error(result.error)
    return worst if result.ordinary is None else f"{error(result.ordinary)} ({worst})"


def to_json(report: Report, strict: bool = False) -> str:
    """The whole check, with the exit status."""
    return json.dumps({**report.document(), "status": report.status(strict)}, indent=2, ensure_ascii=False) + "\n"


def sentence(report: Report) -> str:
    """The verdict on everything, in one sentence."""
    wrong = [result.name for result in report.results if result.verdict == "mistake"]
    lost = ("not written yet", "crashed", "could not be built", "took too long")
    checked = [r for r in report.results if r.verdict not in lost]
    if not report.results:
        return "No component was found to check."
    if wrong:
        have = "has" if len(wrong) == 1 else "have"
        return f"{len(wrong)} of {_components(len(report.results))} {have} a mistake: {', '.join(wrong)}."
    unknown = [result.name for result in report.results if result.verdict == "unknown mismatch"]
    if unknown:
        return f"No known mistake was found, but the numbers of {', '.join(unknown)} differ."
    if not checked:
        return "None of the components could be checked."
    left = len(report.results) - len(checked)
    return f"No mistake in {_components(len(checked))}" + (f"; {left} could not be checked." if left else ".")


def _components(number: int) -> str:
    return f"{number} component{'' if number == 1 else 's'}"


# ---- The terminal ----


def show(report: Report, console: Console) -> None:
    """Problems of files, the scoreboard, a paragraph for every mistake, and the verdict."""
    from rich.markup import escape

    for problem in report.problems:
        console.print(f"[yellow]{escape(problem)}[/]", soft_wrap=True)
    if report.results:
        console.print(_table(report.results, console.width))
        for line in _legend(report.results):
            console.print(f"[dim]{escape(line)}[/]", soft_wrap=True)
    for result in report.results:
        for line in explanation(result, min(console.width, 100), inherited=False):
            console.print(_coloured(line), soft_wrap=True)
    for line in _inherited(report.results):
        console.print(escape(f"\n{line}"), soft_wrap=True)
    for text, names in limits(report.results).items():
        console.print(f"\n{escape(', '.join(names))}: {escape(text)}", soft_wrap=True)
    _worth_knowing(report, console)
    if report.ignored:
        console.print(f"\n[dim]Not known as components: {escape(', '.join(report.ignored))}.[/]", soft_wrap=True)
    colour = {0: "green", 1: "red", 2: "yellow"}[report.status()]
    console.print(f"\n[bold {colour}]{escape(sentence(report))}[/]", soft_wrap=True)


def _coloured(line: str) -> str:
    """The line to look at in bold, and a fix in red and green."""
    from rich.markup import escape

    style = (
        {">": "bold yellow", "-": "red", "+": "green"}.get(line[4:5])
        if line[:4] == "    " and line[5:6] == " "
        else None
    )
    return f"[{style}]{escape(line)}[/]" if style else escape(line)


def _worth_knowing(report: Report, console: Console) -> None:
    """One line for what is no deviation at all, such as pre-norm."""
    from rich.markup import escape

    notes: dict[str, list[str]] = {}
    for result in report.results:
        for named in result.mistakes:
            if named.severity == "note":
                text = f"{named.title} ({named.id}){': ' + named.form if named.form else ''}"
                notes.setdefault(text, []).append(result.name)
    if notes:
        example = next(n.id for r in report.results for n in r.mistakes if n.severity == "note")
        console.print(f"\nFor information, no mistakes (scratch-transformer explain {example} says more):")
    for text, names in notes.items():
        console.print(f"  {escape(text)}, in {escape(', '.join(names))}", soft_wrap=True)


def _legend(results: Iterable[Result]) -> Iterator[str]:
    """What the words, numbers and brackets of the table mean, as far as they occur."""
    results = list(results)
    for verdict in dict.fromkeys(result.verdict for result in results):
        yield f"{verdict}: {MEANINGS.get(verdict, '')}"
    if any(result.inherited for result in results):
        yield "(LN1) in brackets: the mistake is in a part of it, and is explained there"
    if any(result.error is not None for result in results):
        yield "error: the largest difference from PyTorch's output, as a share of the largest number in it"
        yield "       (1e-15 is rounding, 1e-02 is 1 %)"
    if any(result.ordinary is not None for result in results):
        yield "(9e-01) in brackets: the error on inputs made to show mistakes, such as tokens with a tiny variance"


def _table(results: Iterable[Result], width: int) -> Any:
    """On a narrow terminal without the kind, which the names mostly tell."""
    from rich import box
    from rich.table import Table

    results = list(results)
    files = {result.where.partition(":")[0] for result in results}
    wide = width >= 100
    drawn = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    drawn.add_column("component", overflow="fold")
    drawn.add_column("line" if len(files) == 1 else "where", justify="right" if len(files) == 1 else "left")
    if wide:
        drawn.add_column("is a", overflow="fold")
    drawn.add_column("verdict", min_width=min(30, width // 3))
    drawn.add_column("error", justify="right", no_wrap=True)
    for result in results:
        place = result.where.partition(":")[2] or result.where if len(files) == 1 else result.where
        kind = [result.kind] if wide else []
        drawn.add_row(result.name, place, *kind, _verdict(result), errors(result))
    return drawn


def _verdict(result: Result) -> str:
    return f"[{STYLES.get(result.verdict, 'yellow')}]{named(result)}[/]"


def named(result: Result) -> str:
    """The verdict with the mistakes, those of its parts in brackets, and with the parts that it is not about."""
    ids = [*result.ids, *(f"({id})" for id in result.inherited)]
    verdict = f"{result.verdict}, but for its {' and '.join(result.replaced)}" if result.replaced else result.verdict
    return f"{verdict}: {' '.join(ids)}" if ids and result.verdict != "crashed" else verdict


def limits(results: Iterable[Result]) -> dict[str, list[str]]:
    """What was not checked, and of which components."""
    found: dict[str, list[str]] = {}
    for result in results:
        for text in result.limits:
            found.setdefault(text, []).append(result.name)
    return found


def _inherited(results: Iterable[Result]) -> Iterator[str]:
    """One sentence for all components that have the same mistakes in their parts."""
    groups: dict[str, list[str]] = {}
    for result in results:
        if result.inherited:
            groups.setdefault(", ".join(result.inherited), []).append(result.name)
    for ids, names in groups.items():
        verb = "contains" if len(names) == 1 else "contain"
        yield f"{', '.join(names)}: {verb} a part with {ids}, explained there."


def explanation(result: Result, width: int = 100, inherited: bool = True) -> list[str]:
    """What there is to say about a component beyond its row, as lines; [] if that is all.

    inherited: with what is wrong in its parts.
    """
    lines: list[str] = []
    for named in result.mistakes:
        if named.severity == "note":
            continue
        lines += ["", f"{result.name}, {named.where or result.where}: {named.title} ({named.id})"]
        lines += _paragraphs(named, result, width)
    if inherited:
        lines += [text for line in _inherited([result]) for text in ("", line)]
    if result.problem:
        lines += ["", f"{result.name}, {result.where}: {result.problem}"]
        if result.stub:
            lines += ["  To have it checked, put this into adapters.py, fill it in, and add --adapter adapters.py:", ""]
            lines += [f"    {line}" for line in result.stub.splitlines()]
    if result.verdict == "unknown mismatch" or result.unexplained:
        lines += ["", *textwrap.wrap(unexplained(result), width)]
        if result.divergence:
            lines += textwrap.wrap(result.divergence, width, initial_indent="  ", subsequent_indent="  ")
        lines += [f"  {note}" for note in result.notes]
    return lines


def unexplained(result: Result) -> str:
    """That its numbers are not accounted for: by nothing, or not by the mistakes that are named."""
    probe = f", with {result.probe}" if result.probe else ""
    differs = f"differ from those of {result.against} (relative error {error(result.error)}{probe})"
    if result.unexplained:
        ids = " and ".join(named.id for named in result.mistakes if named.severity == "mistake")
        is_named = f"{ids or 'a mistake'} is named, but its numbers {differs}"
        return f"{result.name}, {result.where}: {is_named} for another reason too."
    return f"{result.name}, {result.where}: its numbers {differs}, and no mistake of the catalogue explains them."


def _paragraphs(named: Named, result: Result, width: int) -> list[str]:
    parts = {
        "What it does": named.does + (f" Here: {named.form}." if named.form else ""),
        "Expected": named.expected,
        "The numbers": named.evidence,
        "Look at": named.where,
        "The fix": named.fix,
        "Source": named.source,
    }
    lines: list[str] = []
    for heading, text in parts.items():
        if text:
            whole = f"{heading}: {' '.join(text.split())}"
            lines += textwrap.wrap(whole, width, initial_indent="  ", subsequent_indent="      ")
        if heading == "Look at":
            lines += [f"    {sign} {number or '':>4}  {code}".rstrip() for sign, number, code in listing(named)]
    others = [" and ".join(ids) for ids in result.alternatives if named.id not in ids]
    if others:
        lines.append(f"  These numbers could also come from {', or '.join(others)}.")
    return lines


def listing(named: Named) -> list[tuple[str, int, str]]:
    """(sign, number, line) of the learner's own lines: ">" the one to look at; "-" and "+" what the fix changes."""
    shown: list[tuple[str, int, str]] = []
    for number, code in enumerate(named.code, named.first):
        if number != named.line:
            shown.append((" ", number, code))
            continue
        shown.append(("-" if named.put else ">", number, code))
        shown += [("+", 0, new) for new in named.put]
    return shown


# ---- The page ----


def page(report: Report, strict: bool = False) -> str:
    """The check as one self-contained HTML document."""
    from scratch_transformer import pages  # needs jinja2, which the terminal does not

    return pages.render(
        __package__, {"error": error, "named": named, "unexplained": unexplained, "listing": listing},
        report=report, sentence=sentence(report), meanings=MEANINGS, status=report.status(strict),
    )  # fmt: skip
