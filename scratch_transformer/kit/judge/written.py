"""Factors as they are written: a number in place of a size, right for heads of one width; √d_model in another class."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from inspect import isfunction
from typing import Any

from scratch_transformer.kit.arrays.module import OfArrays
from scratch_transformer.kit.definitions import leads_to, names_in, namespace_of, nodes_of
from scratch_transformer.kit.judge.session import ROUNDED, Session, distance
from scratch_transformer.kit.judge.variants import call
from scratch_transformer.kit.recipe import RIGHT
from scratch_transformer.kit.syntax import last_name

WIDTHS = (8, 16, 32, 64, 128)
"""Of heads, as people write them in."""
NUMBER = re.compile(r"(?<![\w.])\d+\.?\d*")


def right_width(session: Session) -> int:
    """The width of heads for which a core's scale is right that is written in, scores / sqrt(64); 0 without one."""
    if session.kind.name != "ScaledDotProductAttention" or not session.ran:
        return 0
    written = {float(number) for number in NUMBER.findall(session.candidate.text)}
    name = session.ran[0].probe.name
    for width in WIDTHS:
        if not {width, width**0.5, width**-0.5} & written:
            continue
        probes = session.kind.probes({**session.settings, "d_k": width}, 0)
        probe = replace(next(one for one in probes if one.name == name), name=f"{name}, heads of {width}")
        try:
            output = call(session.candidate, probe.inputs)
        except Exception:  # the learner's code may raise anything
            return 0
        if distance(output, session.builtin(RIGHT, probe), probe) <= ROUNDED:
            return width
    return 0


MODEL = re.compile(r"(d|dim|size|width|n)?_?(model|hidden|emb\w*)?_?(d|dim|dims|size|width|features)?", re.IGNORECASE)
"""What the width of tokens is called."""
OTHERS = re.compile(r"norm|att|soft_?max|gelu|head", re.IGNORECASE)
"""In the names of what multiplies by a root of a width that is no embedding's scale."""
EMBEDS = re.compile(r"emb|tok|wte", re.IGNORECASE)
"""In the name of what looks up a row for every word."""


def is_scaled_beside(session: Session) -> bool:
    """Whether another class of its file multiplies what it is given by √d_model: that of positions, or the model."""
    made: Any = type(session.candidate.module)
    own = made.of if issubclass(made, OfArrays) else made
    others = [one for one in namespace_of(own).values() if isinstance(one, type) and one.__module__ == own.__module__]
    others = [one for one in others if one is not own and not OTHERS.search(one.__name__)]
    return any(_is_scaled(method) for one in others for method in vars(one).values() if isfunction(method))


def _is_scaled(method: Any) -> bool:
    """x * math.sqrt(self.d_model) in forward; elsewhere, and beside attention, self.embed(x) * d_model**0.5 alone."""
    products = [n for n in nodes_of(method, ast.BinOp) if isinstance(n.op, ast.Mult)]
    scaled = [(n.left, n.right) for n in products if any(map(MODEL.fullmatch, _roots((n.left, n.right))))]
    if method.__name__ != "forward" or any(map(OTHERS.search, names_in(method))):
        scaled = [sides for sides in scaled if any(map(_looks_up, sides))]
    return bool(scaled)


def _looks_up(side: ast.expr) -> bool:
    return isinstance(side, ast.Call) and EMBEDS.search(ast.unparse(side.func)) is not None


def _roots(sides: tuple[ast.expr, ...]) -> Iterator[str]:
    """The names of which a factor is the root."""
    for side in sides:
        is_power = isinstance(side, ast.BinOp) and isinstance(side.op, ast.Pow) and ast.unparse(side.right) in HALVES
        is_root = isinstance(side, ast.Call) and ast.unparse(side.func).endswith("sqrt")
        within = side.left if is_power else side.args[0] if is_root and side.args else None  # type: ignore[attr-defined]
        names = (n for n in ast.walk(within) if isinstance(n, (ast.Name, ast.Attribute))) if within else ()
        yield from (last_name(node) for node in names)


HALVES = ("0.5", "1 / 2")


LEAST_BASE = 100
"""Of rotary positions, by design; of a smaller one the slowest pair comes round within a few dozen words."""


def bases(thing: Any) -> list[float]:
    """The numbers that something, or what it is made of, raises to what it computes: 10 ** (i / dim)."""
    nodes = [node for one in (thing, *leads_to(thing)) for node in nodes_of(one)]
    sides = [(one.left, one.right) for one in nodes if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Pow)]
    calls = [one.args for one in nodes if isinstance(one, ast.Call) and ast.unparse(one.func).endswith(("pow", "log"))]
    sides += [(args[0], args[1]) for args in calls if len(args) == 2]
    raised = [base for base, exponent in sides if any(isinstance(one, ast.Name) for one in ast.walk(exponent))]
    raised += [args[0] for args in calls if len(args) == 1]  # exp(-log(10) * i / dim)
    found = [base.value for base in raised if isinstance(base, ast.Constant)]
    return [float(one) for one in dict.fromkeys(found) if isinstance(one, (int, float)) and one > 1]
