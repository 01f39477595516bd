"""What there is to say about one component, in words."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator

from scratch_transformer.kit.report.record import Named, Record


def error(value: float | None) -> str:
    """A relative error to one digit."""
    if value is None or not _is_number(value):
        return "–"
    return "0" if value == 0 else f"{value:.0e}"


def _is_number(value: float | None) -> bool:
    """Whether there is an error to tell: none where shapes differ, or one of both is NaN."""
    return value is not None and abs(value) < float("inf")


def explanation(
    result: Record, width: int = 100, inherited: bool = True, told: dict[tuple[str, ...], str] | None = None
) -> list[str]:
    """What there is to say about a component beyond its row, as lines; [] if that is all.

    inherited: with what is wrong in its parts. told: what was explained before, and of which component; it grows. Of
    that only the numbers are told again: one line, which several are made of, has one explanation.
    """
    lines: list[str] = []
    told = {} if told is None else told
    for named in result.mistakes:
        if named.severity == "note":
            continue
        key = named.id, named.form, named.where if named.line else result.name, named.does, named.fix
        first = told.setdefault(key, result.name)
        again = "" if first == result.name else f", as in {first}"
        lines += ["", f"{result.name}, {named.where or result.where}: {named.title} ({named.id}){again}"]
        lines += _paragraphs(named, result, width, ("The numbers",) if again else HEADINGS)
    if inherited:
        lines += [text for line in inherited_by([result]) for text in ("", line)]
    if result.problem and not _is_told(result.problem, result.mistakes):
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


ROUNDED = 2e-5
"""Largest relative error of what agrees where something is computed in float32."""
STOPS = re.compile(r" stops with \w+: (.*?)( \([^()]*:\d+: .*)?$", re.DOTALL)
"""What something stops with, and where."""


def _is_told(problem: str, mistakes: Iterable[Named]) -> bool:
    """Whether a mistake's numbers say already what it stops with."""
    error = STOPS.search(problem)
    return error is not None and any(error[1] in named.evidence for named in mistakes)


def unexplained(result: Record) -> str:
    """That its numbers are not accounted for: by nothing, or not by the mistakes that are named."""
    differs = _differs(result)
    if result.besides:
        has = f"besides its layers it has self.{result.besides}, a network that the reference has not"
        rest = f"the numbers of {result.against}" if not result.unexplained else "what the mistakes named make"
        return f"{result.name}, {result.where}: {has}. Without that it gives {rest}."
    if result.unexplained:
        ids = result.severe
        verb = "are" if len(ids) > 1 else "is"
        is_named = f"{' and '.join(ids) or 'a mistake'} {verb} named, but {differs}"
        return f"{result.name}, {result.where}: {is_named} for another reason too."
    if result.replaced and result.error is not None and result.error <= ROUNDED:
        parts = " and ".join(result.replaced)
        agrees = f"with the reference's in place of its {parts} it gives the numbers of {result.against}"
        return f"{result.name}, {result.where}: {agrees}. What {parts} computes, nothing explains."
    them = "them" if _is_number(result.error) else "that"
    return f"{result.name}, {result.where}: {differs}, and no mistake of the catalogue explains {them}."


def _differs(result: Record) -> str:
    """From what it is compared with, and by how much; of another shape, or with NaN, its output does."""
    is_number = _is_number(result.error)
    said = [f"relative error {error(result.error)}"] if is_number else []
    said += [f"with {result.probe}"] if result.probe else []
    shown = f" ({', '.join(said)})" if said else ""
    return f"its {'numbers differ from those' if is_number else 'output differs from that'} of {result.against}{shown}"


HEADINGS = ("What it does", "Expected", "The numbers", "Look at", "The fix", "Source")


def _paragraphs(named: Named, result: Record, width: int, headings: Iterable[str]) -> list[str]:
    parts = {
        "What it does": named.does + (f" Here: {named.form}." if named.form else ""),
        "Expected": named.expected,
        "The numbers": named.evidence,
        "Look at": named.where,
        "The fix": named.fix,
        "Source": named.source,
    }
    lines: list[str] = []
    for heading, text in ((heading, parts[heading]) for heading in headings):
        if text:
            whole = f"{heading}: {' '.join(text.split())}"
            lines += textwrap.wrap(whole, width, initial_indent="  ", subsequent_indent="      ")
        if heading == "Look at":
            lines += [f"    {sign} {number or '':>4}  {code}".rstrip() for sign, number, code in listing(named)]
    others = [" and ".join(ids) for ids in result.alternatives if named.id not in ids]
    if others:
        lines.append(f"  These numbers could also come from {', or '.join(others)}.")
    return lines


IN_A_CELL = re.compile(r", cell \d+, line (\d+)$")


def listing(named: Named) -> list[tuple[str, int, str]]:
    """(sign, number, line) of the learner's own lines: ">" the one to look at; "-" and "+" what the fix changes.

    Of a notebook, numbers are of lines in the cell.
    """
    shown: list[tuple[str, int, str]] = []
    last = named.line + named.gone - 1
    cell = IN_A_CELL.search(named.where)
    before = named.line - int(cell[1]) if cell else 0
    for number, code in enumerate(named.code, named.first):
        if not named.line <= number <= last:
            shown.append((" ", number - before, code))
            continue
        shown.append(("-" if named.put else ">", number - before, code))
        shown += [("+", 0, new) for new in named.put if number == last]
    return shown


def inherited_by(results: Iterable[Record]) -> Iterator[str]:
    """One sentence for all components that have the same mistakes in their parts.

    Of another file there is nothing to check where a component shows a mistake with its line in that.
    """
    groups: dict[tuple[str, str], list[str]] = {}
    every = list(results)
    shown = {named.where.rpartition(":")[0] for result in every for named in result.mistakes}
    for result in every:
        if result.inherited:
            left = [part for part in result.unreported if part.rpartition(" of ")[2] not in shown]
            groups.setdefault((", ".join(result.inherited), ", ".join(left)), []).append(result.name)
    for (ids, parts), names in groups.items():
        verb = "contains" if len(names) == 1 else "contain"
        that = "those files" if ", " in parts else "that file"
        there = f" ({parts}): check {that}, too" if parts else ", explained there"
        yield f"{', '.join(names)}: {verb} a part with {ids}{there}."
