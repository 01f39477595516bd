"""A check for people: a scoreboard and paragraphs for the terminal, and a page as HTML."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from scratch_transformer.kit.report.finding import FAILED, NOT_COMPARED, UNDEFINED, Report, Result
from scratch_transformer.kit.report.words import error, explanation, inherited_by, listing, unexplained

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

ROUNDING = 1e-12
"""Errors below this come from the order of additions."""
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
    "mistake": "something is wrong, and it is known what: see below",
    "unknown mismatch": "gives other numbers, and no known mistake explains them",
    "not written yet": "it raises NotImplementedError",
    "crashed": "its forward stops with an error",
    "could not be built": "its constructor could not be called",
    "took too long": "it did not end in time",
    UNDEFINED: "Python stops where the class is written",
    FAILED: "the check itself failed on it, which is no fault of yours",
}


def errors(result: Result) -> str:
    """The error on ordinary input, and in brackets a larger one on input that was made to show mistakes."""
    worst = error(result.error)
    return f"{error(result.ordinary)} ({worst})" if _has_two(result) else worst


def _has_two(result: Result) -> bool:
    """Whether there is an error on ordinary input and a larger one, neither of which is rounding."""
    return result.ordinary is not None and not (result.error is not None and result.error < ROUNDING)


def to_json(report: Report, strict: bool = False) -> str:
    """The whole check, with the exit status."""
    return json.dumps({**report.document(), "status": report.status(strict)}, indent=2, ensure_ascii=False) + "\n"


def sentence(report: Report) -> str:
    """The verdict on everything, in one sentence."""
    wrong = [result.name for result in report.results if result.verdict == "mistake"]
    checked = [result for result in report.results if result.verdict not in NOT_COMPARED]
    failed = [result.name for result in report.results if result.verdict == FAILED]
    unjudged = f"Not judged, as the check itself failed: {', '.join(failed)}." if failed else ""
    if not report.results:
        return "No component was found to check."
    if wrong:
        have = "has" if len(wrong) == 1 else "have"
        said = f"{len(wrong)} of {_components(len(report.results))} {have} a mistake: {', '.join(wrong)}."
        return f"{said} {unjudged}".rstrip()
    if unjudged:
        return unjudged
    unknown = [result.name for result in report.results if result.verdict == "unknown mismatch"]
    if unknown:
        return f"No known mistake was found, but the numbers of {', '.join(unknown)} differ."
    if not checked:
        return "None of the components could be checked."
    lent = {part for result in checked for part in result.replaced} - {result.name for result in report.results}
    left = len(report.results) - len(checked) + len(lent)
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
    told: dict[tuple[str, ...], str] = {}
    for result in report.results:
        for line in explanation(result, min(console.width, 100), inherited=False, told=told):
            console.print(_coloured(line), soft_wrap=True)
    for line in inherited_by(report.results):
        console.print(escape(f"\n{line}"), soft_wrap=True)
    for text, names in limits(report.results).items():
        console.print(f"\n{escape(', '.join(names))}: {escape(text)}", soft_wrap=True)
    _worth_knowing(report, console)
    if report.ignored:
        console.print(f"\n[dim]Not known as components: {escape(unknown(report.ignored))}.[/]", soft_wrap=True)
    colour = {0: "green", 1: "red", 2: "yellow"}[report.status()]
    console.print(f"\n[bold {colour}]{escape(sentence(report))}[/]", soft_wrap=True)


def unknown(said: Iterable[str]) -> str:
    """The names of what is no component, those together of which the same is said: One, Two (why); Three (why)."""
    alike: dict[str, list[str]] = {}
    for one in said:
        name, _, why = one.partition(" (")
        alike.setdefault(why, []).append(name)
    return "; ".join(f"{', '.join(names)}{why and ' ('}{why}" for why, names in alike.items())


def _coloured(line: str) -> Text:
    """The line to look at in bold, and a fix in red and green."""
    from rich.text import Text

    is_code = line[:4] == "    " and line[5:6] == " "
    styles = {">": "bold yellow", "-": "red", "+": "green"}
    return Text(line, styles.get(line[4:5], "") if is_code else "")


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
    if inherited := [id for result in results for id in result.inherited]:
        yield f"({inherited[0]}) in brackets: the mistake is in a part of it, and is explained there"
    if beside := [id for result in results for id in harmless(result)]:
        yield f"; {beside[0]} behind a semicolon: no mistake, but different from PyTorch"
    if any(result.error is not None for result in results):
        yield "error: the largest difference from PyTorch's output, as a share of the largest number in it"
        yield "       (1e-15 is rounding, 1e-02 is 1 %)"
    if any(map(_has_two, results)):
        yield "(9e-01) in brackets: the error on inputs made to show mistakes, such as tokens with a tiny variance"


def _table(results: Iterable[Result], width: int) -> Any:
    """On a narrow terminal without the kind, which the names mostly tell."""
    from rich import box
    from rich.table import Table

    results = list(results)
    places = [_file_and_place(result.where) for result in results]
    is_one = len({file for file, _ in places}) == 1
    are_lines = is_one and not any(place.startswith("cell") for _, place in places)
    wide = width >= 100
    drawn = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    drawn.add_column("component", overflow="fold")
    drawn.add_column("line" if are_lines else "where", justify="right" if are_lines else "left")
    if wide:
        drawn.add_column("is a", overflow="fold")
    drawn.add_column("verdict", min_width=min(30, width // 3))
    drawn.add_column("error", justify="right", no_wrap=True)
    for result, (_, place) in zip(results, places, strict=True):
        kind = [result.kind] if wide else []
        verdict = f"[{STYLES.get(result.verdict, 'yellow')}]{named(result)}[/]"
        drawn.add_row(result.name, place if is_one and place else result.where, *kind, verdict, errors(result))
    return drawn


def _file_and_place(where: str) -> tuple[str, str]:
    """model.py:12 -> model.py and 12; notes.ipynb, cell 3, line 2 -> notes.ipynb and cell 3, line 2."""
    file, in_a_cell, place = where.partition(", cell ")
    return (file, f"cell {place}") if in_a_cell else (where.partition(":")[0], where.partition(":")[2])


def named(result: Result) -> str:
    """The verdict with the mistakes, those of its parts in brackets, what is none behind them, and with the parts that
    it is not about.
    """
    besides = harmless(result)
    ids = dict.fromkeys([*(id for id in result.ids if id not in besides), *(f"({id})" for id in result.inherited)])
    verdict = result.verdict
    if result.replaced:
        verdict += f", with the reference's {', '.join(result.replaced)}"
    said = "; ".join(" ".join(some) for some in (ids, besides) if some)
    return f"{verdict}: {said}" if said and result.verdict != "crashed" else verdict


def harmless(result: Result) -> list[str]:
    """What is named beside a mistake, and is none."""
    if result.verdict != "mistake":
        return []
    found = {named.id: named.severity for named in result.mistakes if named.severity != "note"}
    return [id for id, severity in found.items() if severity != "mistake"]


def limits(results: Iterable[Result]) -> dict[str, list[str]]:
    """What was not checked, and of which components."""
    found: dict[str, list[str]] = {}
    for result in results:
        for text in result.limits:
            found.setdefault(text, []).append(result.name)
    return found


# ---- The page ----


def page(report: Report, strict: bool = False) -> str:
    """The check as one self-contained HTML document."""
    from scratch_transformer import pages  # needs jinja2, which the terminal does not

    return pages.render(
        __package__, {"error": error, "errors": errors, "named": named, "unexplained": unexplained, "listing": listing},
        report=report, sentence=sentence(report), meanings=MEANINGS, status=report.status(strict),
    )  # fmt: skip
