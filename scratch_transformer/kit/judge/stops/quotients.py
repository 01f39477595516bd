"""B26: a quotient, which is a float, where an integer is needed: nn.Linear(d_model, d_model / num_heads)."""

from __future__ import annotations

import ast
import re
from types import FrameType

from scratch_transformer.kit.judge.frames import function_of, nodes_at, nodes_on
from scratch_transformer.kit.judge.stops.refused import NOTHING
from scratch_transformer.kit.syntax import arguments_of, nodes_in

WANTED = re.compile(
    r"must be (tuple of ints|int),? ?(but found element of type|but got|not) float|"
    r"got \([^()]*\bfloat\b[^()]*\), but expected one of:.*tuple of ints|"
    r"'float' object cannot be interpreted as an integer|can't multiply sequence by non-int of type 'float'",
    re.DOTALL,
)
PLAIN = (ast.BinOp, ast.Name, ast.Attribute, ast.Constant, ast.operator, ast.Load)
"""What is computed again: a method or a function might do anything."""


def is_one(error: BaseException | None) -> bool:
    """Whether somebody was given a float and wants an integer."""
    return type(error) is TypeError and WANTED.search(str(error)) is not None


def no_integer(error: BaseException, frame: FrameType) -> tuple[str, str]:
    """What is divided with /, in the call itself or where the name or the attribute that it is given was set."""
    for node in nodes_at(error, frame, ast.Call) if is_one(error) else ():
        for part in nodes_in(arguments_of(node), ast.expr):
            if found := _quotient(part, frame):
                return f"{found} is a float, and an integer is needed: // divides so.", ast.unparse(part)
    return NOTHING


def _quotient(node: ast.AST, frame: FrameType) -> str:
    """As it is written, of a node that is a quotient and a float; "" of any other."""
    if not isinstance(node, (ast.BinOp, ast.Name, ast.Attribute)) or type(_value(node, frame)) is not float:
        return ""
    if isinstance(node, ast.BinOp):
        return ast.unparse(node) if _divides(node) else ""
    written = ast.unparse(node)
    values = [one.value for one in nodes_in(_home(node, frame), ast.Assign) if written in map(ast.unparse, one.targets)]
    return f"{written} = {ast.unparse(values[0])}" if values and all(map(_divides, values)) else ""


def _divides(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)


def _home(node: ast.expr, frame: FrameType) -> ast.AST | None:
    """The class in which an attribute is set, the function in which a name is: those around the line."""
    if not isinstance(node, ast.Attribute):
        return function_of(frame)
    around = nodes_on(frame.f_code.co_filename, frame.f_code.co_firstlineno, ast.ClassDef)
    return max(around, key=lambda one: one.lineno, default=None)


def _value(node: ast.expr, frame: FrameType) -> object:
    if not all(isinstance(part, PLAIN) for part in ast.walk(node)):
        return None
    try:
        return eval(compile(ast.Expression(node), "<quotient>", "eval"), frame.f_globals, frame.f_locals)
    except Exception:  # of the learner's own operators
        return None
