"""Where a finding is: with the line to look at, and what should stand there, as plain data."""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from scratch_transformer.kit.definitions import parameters_of, reads, text_of_file
from scratch_transformer.kit.discover.target import Source, find
from scratch_transformer.kit.judge.frames import said_of
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.report import idle, lines
from scratch_transformer.kit.report.finding import Named
from scratch_transformer.kit.report.fitting import fitting
from scratch_transformer.kit.report.fixes import settled_by
from scratch_transformer.kit.resolve.library.around import Around, as_its_class_says
from scratch_transformer.kit.resolve.names.settings import settings_of


def located(finding: Finding, value: Any, source: Source, made: Any = None) -> Named:
    """With the line to look at, of the class or function or of what it is made of, and was given."""
    finding = as_its_class_says(finding) if isinstance(made, Around) else finding
    if unread := _unread(finding.evidence, source):
        return named(finding, next(iter(find(source.path).sources), source), unread)
    given = [type(part) for part in modules_of(made)] if finding.owner is None else []
    given = [cls for cls in given if not cls.__module__.startswith("scratch_transformer.")]  # what stands in for parts
    name = finding.name or _told_in_vain(finding, value) or finding.form
    never = idle.of_modules(modules_of(made), finding.path)
    said = lines.Said(said_of(finding.evidence), *finding.at)
    looked = value if finding.owner is None else finding.owner
    found = lines.place(finding.mistake.id, name, looked, given, said, finding.part, never)
    if found is None:
        return named(finding, source)
    if setting := found.fix or settled_by(finding.mistake.id, linecache.getline(found.file, found.line)):
        finding = replace(finding, fix=setting)
    elif fits := fitting(finding.mistake.id, finding.form, found.file, found.line, modules_of(made)):
        finding, found = replace(finding, fix=fits.text), found._replace(put=fits.put)
    text = text_of_file(found.file)
    if text and text != source.text:
        source = Source(found.file, text)
    told = named(finding, source, found.line, found.put, found.gone)
    told.fix += and_lines(found.also)
    return told


def and_lines(others: Sequence[int]) -> str:
    """That other lines are to be changed in the same way, as a sentence behind a fix."""
    if not others:
        return ""
    numbers = " and ".join(filter(None, (", ".join(map(str, others[:-1])), str(others[-1]))))
    return f" The same in line{'s' if len(others) > 1 else ''} {numbers}."


def _told_in_vain(finding: Finding, value: Any) -> str:
    """The parameter of a constructor that is not listened to, where that does not even read it; else ""."""
    make = vars(value).get("__init__") if isinstance(value, type) and finding.mistake.id == "B29" else None
    meant = [p.name for p in parameters_of(make) if finding.form in settings_of(p.name)]
    return next((name for name in meant if not reads(make, name)), "")


def _unread(evidence: str, source: Source) -> int:
    """The line that Python cannot read, or where what it is in begins, if a mistake is that; else 0."""
    numbers = range(1, source.text.count("\n") + 2) if "cannot" in evidence else ()
    return next((n for n in numbers if any(said.format(source.where(n)) in evidence for said in UNREAD)), 0)


UNREAD = ("Python cannot read line {} (", "({}) cannot be read and is left out")
"""What is said of a line."""


def named(finding: Finding, source: Source, line: int = 0, put: Sequence[str] = (), gone: int = 1) -> Named:
    """A finding as plain data. line: of the file, to look at. put: what should stand in place of `gone` lines there."""
    mistake = finding.mistake
    first, code = lines.excerpt(source.text, line, gone) if line else (0, [])
    if 0 < line <= len(source.cells):
        cells = [cell for cell, _ in source.cells[first - 1 : first - 1 + len(code)]]
        own = [n for n, cell in enumerate(cells) if cell == source.cells[line - 1][0]]  # what is beside it in its cell
        first, code = first + own[0], code[own[0] : own[-1] + 1]
    return Named(
        mistake.id, mistake.title, finding.severity, finding.does or mistake.does, mistake.expected, finding.evidence,
        finding.fix or mistake.fixes.get(finding.form, mistake.fix), mistake.source, finding.words,
        source.where(line) if line else "", code, first, line, list(put), gone,
    )  # fmt: skip


def modules_of(made: Any) -> list[nn.Module]:
    """A module and all that it has; of anything else, nothing."""
    return [*made.modules()] if isinstance(made, nn.Module) else []
