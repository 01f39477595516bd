"""Exceptions whose cause is an entry of the catalogue."""

from __future__ import annotations

import re
from collections.abc import Iterable

from scratch_transformer.kit.judge import undefined
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES

# id, type of the exception, what its message says
KNOWN: tuple[tuple[str, type[Exception], str], ...] = (
    ("LN8", TypeError, r"descriptor '__init__' of 'super' object"),
    ("LN8", AttributeError, r"before Module\.__init__\(\) call"),
    ("LN8", AttributeError, r"object has no attribute '_(parameters|modules|buffers)'"),
    ("E1", TypeError, r"sqrt\(\)[^\n]*must be Tensor, not (int|float)"),
    ("E1", TypeError, r"sqrt\(\) received an invalid combination of arguments|sqrt\(\) got an unexpected keyword"),
    ("A8", RuntimeError, r"value cannot be converted to type (at::)?(Half|c10::Half)[^\n]*overflow"),
)


def explain_crash(error: BaseException) -> str | None:
    """The id of the mistake that an exception is typical of, or None."""
    message = str(error)
    for id, type_, pattern in KNOWN:
        if isinstance(error, type_) and id in MISTAKES and re.search(pattern, message):
            return id
    return None


def first_finding(errors: Iterable[BaseException]) -> tuple[Finding, BaseException] | None:
    """Of what something stops with, in whatever ways it was tried, the first that its code alone shows to be wrong."""
    found = ((undefined.finding(error, is_one_of_many=True), error) for error in errors if isinstance(error, Exception))
    return next(((finding, error) for finding, error in found if finding is not None), None)


def crash_finding(error: BaseException) -> Finding | None:
    """The mistake that an exception is typical of, with its message."""
    id = explain_crash(error)
    if id is None:
        return undefined.finding(error)
    line = next(iter(str(error).strip().splitlines()), "")
    return Finding(MISTAKES[id], f"It stops with {type(error).__name__}: {line}")
