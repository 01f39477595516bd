"""What is to be changed in a learner's text, so that a line runs: a word for another. The file stays as it is."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from scratch_transformer.kit.judge.frames import nodes_on
from scratch_transformer.kit.syntax import DEFINITIONS


class Edit(NamedTuple):
    """A word of a line, from 1, and what to put there; "" for what is put before all of a line's statement.

    start: in bytes, as Python counts.
    """

    line: int
    start: int
    old: str
    new: str


@dataclass(frozen=True)
class Repair:
    """How a stop is mended in one way and no other: words of a file, or globals that an import would bring.

    fix: in words. namespace: of the module whose code it is. renamed: the class whose method gets another name.
    """

    file: str
    namespace: dict[str, Any]
    fix: str
    edits: tuple[Edit, ...] = ()
    brought: Mapping[str, Any] = field(default_factory=dict)
    renamed: tuple[type, str, str] | None = None

    @property
    def lines(self) -> list[int]:
        """The lines that it changes."""
        return sorted({edit.line for edit in self.edits})


def edited(text: str, edits: Iterable[Edit]) -> str:
    """A text with other words; "" if one of them is not where it was seen, as within an f-string."""
    lines = text.splitlines(keepends=True)
    for line, start, old, new in sorted(edits, reverse=True):
        raw, word = lines[line - 1].encode(), old.encode()
        if raw[start : start + len(word)] != word:
            return ""
        lines[line - 1] = (raw[:start] + new.encode() + raw[start + len(word) :]).decode()
    return "".join(lines)


def shown(text: str, line: int, edits: Iterable[Edit]) -> list[str]:
    """What should stand in place of a line: what is put before its statement, on lines of its own, and the line."""
    here = [edit for edit in edits if edit.line == line]
    before = [edit for edit in here if not edit.old]
    changed = edited(text, [edit for edit in here if edit.old]).splitlines()[line - 1]
    indent = changed[: len(changed) - len(changed.lstrip())]
    return [*(indent + edit.new.rstrip("; ") for edit in before), changed]


def of_attributes(nodes: Iterable[ast.AST], fits: Callable[[ast.Attribute], bool], new: str) -> tuple[Edit, ...]:
    """The last words of all attributes that are read and fit: x.tranpose."""
    found = [one for one in nodes if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Load) and fits(one)]
    ends = [(one.end_lineno or 0, (one.end_col_offset or 0) - len(one.attr.encode()), one.attr) for one in found]
    return tuple(Edit(line, start, old, new) for line, start, old in ends)


def of_whole_attributes(nodes: Iterable[ast.AST], old: str, new: str) -> tuple[Edit, ...]:
    """Attributes that are read, and stand on one line, as a whole: self.d_model, where d_model is meant."""
    found = [one for one in nodes if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Load)]
    whole = [one for one in found if ast.unparse(one) == old and one.lineno == one.end_lineno]
    return tuple(Edit(one.lineno, one.col_offset, old, new) for one in whole)


def of_names(nodes: Iterable[ast.AST], old: str, new: str) -> tuple[Edit, ...]:
    """A name wherever it is read."""
    found = [one for one in nodes if isinstance(one, ast.Name) and one.id == old and isinstance(one.ctx, ast.Load)]
    return tuple(Edit(one.lineno, one.col_offset, old, new) for one in found)


def around(path: str, line: int, sorts: Any = DEFINITIONS, outermost: bool = False) -> ast.AST | None:
    """The innermost definition of a file that a line is in, or the outermost; None if it is in none."""
    inside = sorted(nodes_on(path, line, sorts), key=lambda node: node.lineno, reverse=not outermost)
    return next(iter(inside), None)


def is_called(node: ast.AST, within: ast.AST) -> bool:
    """Whether a node is what a call calls."""
    return any(isinstance(one, ast.Call) and one.func is node for one in ast.walk(within))
