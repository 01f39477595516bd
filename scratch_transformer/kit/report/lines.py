"""Which line of a learner's class to look at for a mistake: the statement that is usually at fault, else forward."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from typing import Any

from scratch_transformer.kit.report.fixes import fixed

PATTERNS: dict[str, str] = {
    "LN1": r"\.(std|var)\(", "LN2": r"eps", "LN3": r"eps", "LN4": r"Parameter\(", "LN5": r"\*\*\s*2|pow\(|square",
    "LN6": r"Parameter\(", "LN7": r"mean\(|\.std\(|\.var\(", "LN8": r"super", "LN9": r"eps|std|var",
    "LN10": r"mean|var", "E1": r"sqrt", "E2": r"return|embed", "E4": r"init|uniform|normal", "E5": r"padding_idx",
    "P1": r"\[:, ?1::2\]|1::2|cos", "P2": r"exp\(|pow|10000|1e4", "P3": r"cat\(|concat", "P4": r"return|\[:",
    "P5": r"self\.pe|zeros|buffer", "P6": r"\[:", "P8": r"zeros\(|arange", "P9": r"return|\+", "P10": r"10000|exp\(",
    "P11": r"return", "A1": r"sqrt|\*\*\s*-?0\.5|/ ?\(?self|scale", "A2": r"softmax", "A3": r"mask", "A4": r"mask",
    "A5": r"tril|triu|mask", "A6": r"tril|triu|mask", "A7": r"mask", "A8": r"masked_fill|1e9|inf",
    "A10": r"masked_fill|10000|1e4|e4", "A11": r"masked_fill|mask", "A12": r"masked_fill_|_\(|\+=|\*=",
    "A13": r"view|reshape", "A14": r"Linear\(", "A15": r"Linear\(", "A16": r"mask", "A17": r"attn|weights|scores",
    "A18": r"dropout", "A19": r"//|%", "A21": r"matmul|@|bmm|einsum", "A22": r"cross|memory|\benc|\bmem",
    "A23": r"view|reshape|transpose|permute", "A24": r"mask", "A25": r"tril|triu|mask",
    "A27": r"self_?att\w*\(|mask", "A28": r"Linear\(", "A29": r"masked_fill|mask\w* ?=", "A30": r"mask|tril|triu",
    "A31": r"mask", "B6": r"dropout|return", "B2": r"norm", "B3": r"norm", "B13": r"norm", "B14": r"return",
    "B15": r"norm", "B16": r"return", "B17": r"relu|gelu|GELU|ReLU|act", "B19": r"for ", "B20": r"att",
    "B22": r"empty\(", "B23": r"\+", "B24": r"dropout",
    "B7": r"dropout", "B8": r"relu|gelu|GELU|ReLU", "B9": r"\* ?\w+|for ", "B10": r"\[", "B11": r"training",
    "B12": r"dropout", "T1": r"softmax", "T2": r"softmax", "T3": r"fill_|smooth", "T4": r"pad|ignore",
    "T5": r"pad|ignore", "T7": r"min|step", "D1": r"log|score", "D2": r"eos|end", "D3": r"eos|end",
}  # fmt: skip


AROUND = 2
"""Lines shown before and after the one at fault."""


def place(id: str, form: str, thing: Any) -> tuple[int, list[str]] | None:
    """The line of a class or function to look at for a mistake, and what to put there, [] where more has to change.

    The line that the fix changes; else the first that fits the mistake; else the head of forward.
    """
    target = thing if isinstance(thing, type) or inspect.isfunction(thing) else type(thing)
    forward = getattr(target, "forward", None) if isinstance(target, type) else None
    parts = [part for part in map(_lines, filter(None, (forward, target))) if part is not None]
    if forward is not None and _file(forward) != _file(target):  # it is inherited: not the learner's
        parts = parts[1:]
    for lines, start in parts:
        found = fixed(id, form, lines[1:])
        if found is not None:
            return start + 1 + found[0], found[1]
    for lines, start in parts:
        silent = _silent(lines)
        for offset, line in enumerate(lines):
            pattern = PATTERNS.get(id)
            if offset not in silent and pattern and re.search(pattern, line.split("#")[0]):
                return start + offset, []
    return (parts[0][1], []) if parts else None


def _silent(lines: list[str]) -> set[int]:
    """The lines on which nothing is computed: heads of classes and functions, and texts."""
    try:
        tree = ast.parse(textwrap.dedent("\n".join(lines)))
    except SyntaxError:
        return {0}
    found = {0}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found |= set(range(node.lineno - 1, node.body[0].lineno - 1))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            found |= set(range(node.lineno - 1, node.end_lineno or node.lineno))
    return found


def excerpt(text: str, line: int) -> tuple[int, list[str]]:
    """The number of the first line shown, and the lines around one of a file."""
    lines = text.splitlines()
    first = max(line - AROUND, 1)
    return first, [shown.rstrip() for shown in lines[first - 1 : line + AROUND]]


def _lines(part: Any) -> tuple[list[str], int] | None:
    try:
        lines, start = inspect.getsourcelines(part)
    except (OSError, TypeError):
        return None
    return [line.rstrip("\n") for line in lines], start


def _file(part: Any) -> str | None:
    try:
        return inspect.getsourcefile(part)
    except TypeError:
        return None
