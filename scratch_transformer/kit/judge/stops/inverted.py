"""B26: ~ of a mask of floating-point numbers, self.mask = torch.tril(torch.ones(T, T)): it is for booleans."""

from __future__ import annotations

import ast
import re
from types import FrameType

from torch import Tensor

from scratch_transformer.kit.judge.frames import function_of, nodes_at
from scratch_transformer.kit.judge.stops.refused import NOTHING, kept
from scratch_transformer.kit.syntax import is_stored, nodes_in

REFUSED = re.compile(r"~ \(operator\.invert\) is only implemented on integer and Boolean")
MAKERS, HALVES = ("ones", "zeros", "eye"), ("tril", "triu")


def no_booleans(error: BaseException, frame: FrameType) -> tuple[str, str]:
    """What is kept as a buffer or parameter, or made on the spot; what forward is given may be of any type."""
    for node in nodes_at(error, frame, ast.UnaryOp) if REFUSED.search(str(error)) else ():
        own = kept(node.operand, frame)
        is_own = own is not None and own.is_floating_point()
        if isinstance(node.op, ast.Invert) and (is_own or _is_made(node.operand, frame)):
            written = ast.unparse(node.operand)
            return f"It takes ~{written}, and {written} is of floating-point numbers: ~ is for booleans.", written
    return NOTHING


def _is_made(node: ast.expr, frame: FrameType) -> bool:
    """Whether it is made of nothing that is given: torch.tril(torch.ones(T, T)), or the only such value of a name."""
    if isinstance(node, ast.Call):
        called, _, last = ast.unparse(node.func).rpartition(".")
        if called == "torch" and last in MAKERS:
            return all(word.arg != "dtype" for word in node.keywords)
        inside = node.args[0] if called == "torch" and node.args else getattr(node.func, "value", None)
        return last in HALVES and inside is not None and _is_made(inside, frame)
    if not isinstance(node, ast.Name) or not isinstance(frame.f_locals.get(node.id), Tensor):
        return False
    inside = nodes_in(function_of(frame), ast.AST)
    values = [n.value for n in inside if isinstance(n, ast.Assign) and [*map(ast.unparse, n.targets)] == [node.id]]
    stored = [n for n in inside if is_stored(n, node.id)]
    is_own = node.id not in {n.arg for n in inside if isinstance(n, ast.arg)}
    return is_own and len(values) == len(stored) == 1 and _is_made(values[0], frame)
