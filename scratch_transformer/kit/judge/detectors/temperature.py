"""S1 of a temperature that is 0 where none is given, by which what draws a word divides."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scratch_transformer.kit.definitions import line_at, nodes_of, parameters_of
from scratch_transformer.kit.judge.frames import DONE_AT
from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import Session
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.optimizing import DOES_DIVIDE_BY_ZERO, ZERO_BY_DEFAULT
from scratch_transformer.kit.syntax import settles


def zero_by_default(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """Of what never asks how large it is, and gives it no other value."""
    definition = getattr(session.candidate.definition, "written", None)
    nodes = nodes_of(definition)
    for name in [p.name for p in parameters_of(definition) if type(p.default) in (int, float) and p.default == 0]:
        quotients = [n for n in nodes if isinstance(n, (ast.expr, ast.stmt)) and _divisor(n) == name]
        if quotients and not settles(nodes, name):
            line = line_at(definition, quotients[0])
            said = f"{name} is 0 where none is given: what is divided by it is infinite, its softmax NaN."
            yield Finding(MISTAKES["S1"], f"{said} {DONE_AT}{line}", ZERO_BY_DEFAULT, does=DOES_DIVIDE_BY_ZERO)
            return


def _divisor(node: ast.AST) -> str:
    """The name by which a node divides: x / name, x /= name, x.div(name); "" if it does not."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return ast.unparse(node.right)
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div):
        return ast.unparse(node.value)
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("div", "div_")
    return ast.unparse(node.args[-1]) if is_call and node.args else ""  # type: ignore[attr-defined]


TEMPERATURE = ((("S1",), zero_by_default),)
