"""Exceptions whose cause is an entry of the catalogue."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable

from scratch_transformer.kit.judge.frames import STOPS_AT
from scratch_transformer.kit.judge.stops import undefined
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.masks import ASKED_FOR

MASK_ASKED = r"\b(if|not|and|or|while|assert)\b(?!\W*\w*mask\w* *(==|!=) *(True|False)\b).*mask"
"""Not a flag, if masked == False."""
# id, type of the exception, what its message says, what the line must say on which it happens
KNOWN: tuple[tuple[str, type[Exception], str, str], ...] = (
    ("LN8", TypeError, r"descriptor '__init__' of 'super' object", ""),
    ("LN8", TypeError, r"super\(\) argument 1 must be (a )?type, not", r"super\(self\)\.__init__\("),
    ("LN8", AttributeError, r"before Module\.__init__\(\) call", ""),
    ("LN8", AttributeError, r"object has no attribute '_(parameters|modules|buffers)'", ""),
    ("E1", TypeError, r"sqrt\(\)[^\n]*must be Tensor, not (int|float)", ""),
    ("E1", TypeError, r"sqrt\(\) received an invalid combination of arguments|sqrt\(\) got an unexpected keyword", ""),
    ("A31", RuntimeError, r"Boolean value of Tensor with more than one value is ambiguous", MASK_ASKED),
    ("A8", RuntimeError, r"value cannot be converted to type (at::)?(Half|c10::Half)[^\n]*overflow", ""),
)


def explain_crash(error: BaseException) -> str | None:
    """The id of the mistake that an exception is typical of, or None."""
    return _explained(error)[0]


def _explained(error: BaseException) -> tuple[str | None, str]:
    """Also the line that shows it, where more than the message does."""
    message, frames = str(error), traceback.extract_tb(error.__traceback__)
    for id, type_, pattern, said in KNOWN:
        lines = [frame.line or "" for frame in frames[-3:] if re.search(said, frame.line or "")] if said else [""]
        if isinstance(error, type_) and id in MISTAKES and re.search(pattern, message) and lines:
            return id, lines[-1].partition("#")[0].strip()
    return None, ""


def first_finding(errors: Iterable[BaseException]) -> tuple[Finding, BaseException] | None:
    """Of what something stops with, in whatever ways it was tried, the first that its code alone shows to be wrong."""
    found = ((undefined.finding(error, is_one_of_many=True), error) for error in errors if isinstance(error, Exception))
    return next(((finding, error) for finding, error in found if finding is not None), None)


def crash_finding(error: BaseException) -> Finding | None:
    """The mistake that an exception is typical of, with its message."""
    id, shown = _explained(error)
    if id is None:
        return undefined.finding(error)
    line = next(iter(str(error).strip().splitlines()), "").rstrip(".")
    at = f". {STOPS_AT}{shown}" if shown else ""
    return Finding(MISTAKES[id], f"It stops with {type(error).__name__}: {line}{at}", fix=fix_of(id, error))


def fix_of(id: str, error: BaseException) -> str:
    """What mends an exception of a mistake, where the catalogue cannot say it for all; else ""."""
    return ASKED_FOR if id == "A31" and explain_crash(error) == "A31" else ""
