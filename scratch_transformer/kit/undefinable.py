"""What is said of a class that is written in a file, and that Python could not define."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from scratch_transformer.kit.discover.load import in_short
from scratch_transformer.kit.discover.target import Source
from scratch_transformer.kit.judge.stops import bases
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.report.finding import UNDEFINED, Result
from scratch_transformer.kit.resolve import likeness
from scratch_transformer.kit.results.locating import named


def result(node: ast.ClassDef, error: BaseException, source: Source, namespace: Mapping[str, Any]) -> Result | None:
    """Of what its name says is a component: the mistake that does it, if that is known. None for anything else."""
    kind = likeness.kind_named(node.name, KINDS)
    if kind is None:
        return None
    found = Result(node.name, source.where(node.lineno), kind, UNDEFINED, what=KINDS[kind].what)
    mistaken = bases.finding(node, source.text, namespace)
    if mistaken is None:
        found.problem = why(error)
    else:
        finding, line, put = mistaken
        found.verdict, found.mistakes = "mistake", [named(finding, source, line, put)]
    return found


def why(error: BaseException) -> str:
    """Why there is no such class, in words."""
    return f"Python could not define it: {in_short(error)}"
