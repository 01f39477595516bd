"""Pairs from text files: one with tabs, or two that are aligned line by line. Lines that make no pair are reported."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from scratch_transformer.translation.errors import InputError

Found = tuple[str, str] | str
"""A pair; or what is wrong with a line, and where."""


def read_tsv(path: str) -> Iterator[Found]:
    """A pair for every line with one tab; for others, a report.

    Raises:
        InputError: the file cannot be read.
    """
    for number, line in enumerate(_lines(path), start=1):
        where = f"{path}, line {number}"
        text = _decoded(line)
        if text is None:
            yield f"{where}: is not UTF-8"
        elif not text.strip():
            yield f"{where}: is empty"
        elif text.count("\t") != 1:
            yield f"{where}: has {text.count(chr(9)) + 1} columns, not a source, a tab and a target"
        else:
            source, target = text.split("\t")
            yield _pair(source, target, where, where)


def read_aligned(source_path: str, target_path: str) -> Iterator[Found]:
    """A pair for every line number; where one of the two lines is empty, a report.

    Raises:
        InputError: a file cannot be read, or they have different numbers of lines.
    """
    sources, targets = _lines(source_path), _lines(target_path)
    for number, (source_line, target_line) in enumerate(zip_longest(sources, targets), start=1):
        if source_line is None or target_line is None:
            longer = number + sum(1 for _ in (targets if source_line is None else sources))
            counts = (number - 1, longer) if source_line is None else (longer, number - 1)
            lines = f"{source_path} has {counts[0]} lines and {target_path} {counts[1]}"
            raise InputError(f"{lines}: expected as many, for they belong together line by line")
        where, target_where = f"{source_path}, line {number}", f"{target_path}, line {number}"
        source, target = _decoded(source_line), _decoded(target_line)
        if source is None or target is None:
            yield f"{where if source is None else target_where}: is not UTF-8"
        else:
            yield _pair(source, target, where, target_where)


def _pair(source: str, target: str, source_where: str, target_where: str) -> Found:
    if not source.strip():
        return f"{source_where}: the source is empty"
    if not target.strip():
        return f"{target_where}: the target is empty"
    return source, target


def _lines(path: str) -> Iterator[bytes]:
    """Lines end with a line feed and nothing else that Unicode calls one, or aligned files would not stay so."""
    try:
        with open(path, "rb") as file:
            yield from file
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None


def _decoded(line: bytes) -> str | None:
    try:
        return line.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError:
        return None
