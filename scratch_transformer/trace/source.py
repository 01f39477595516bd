"""The source of a function that has run: found from its code, so it is what ran."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

ROOTS = (Path(__file__).parents[2], *(Path(path) for path in sys.path if path.endswith("site-packages")))


@dataclass(frozen=True)
class Source:
    """A function: its file, from the package on; the number of its first line; its lines; and what documents it."""

    name: str
    file: str
    first_line: int
    lines: tuple[str, ...]
    doc: str


@functools.cache
def source_of(code: CodeType | None, function: Callable[..., Any]) -> Source:
    """The source of `code`, with the documentation of `function`, or of its class."""
    if code is None:  # a builtin of C has no source
        return Source(getattr(function, "__name__", "?"), "", 0, (), inspect.getdoc(function) or "")
    try:
        lines, first = inspect.getsourcelines(code)
    except OSError:  # typed into a console
        lines, first = [], code.co_firstlineno
    return Source(
        getattr(code, "co_qualname", code.co_name), _short(code.co_filename), first,
        tuple(line.rstrip("\n") for line in lines), _documentation(function),
    )  # fmt: skip


def _documentation(function: Callable[..., Any]) -> str:
    owner, _, _ = getattr(function, "__qualname__", "").rpartition(".")
    own = inspect.getdoc(function) or ""
    if not owner:
        return own
    of_class = inspect.getdoc(getattr(inspect.getmodule(function), owner, None)) or ""
    return of_class if not own or own.startswith("Define the computation") else own


def _short(file: str) -> str:
    for root in ROOTS:
        if Path(file).is_relative_to(root):
            return Path(file).relative_to(root).as_posix()
    return file
