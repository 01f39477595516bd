"""B26: a module where a tensor is needed, as nothing calls it: x + self.attention, lambda x: self.feed_forward."""

from __future__ import annotations

import ast
import linecache
import re
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Any

from torch import Tensor, nn

from scratch_transformer.kit.judge.frames import is_learners, nodes_at
from scratch_transformer.kit.judge.stops.tuples import NOTHING, is_made_there
from scratch_transformer.kit.syntax import is_of_self

SAID = re.compile(r"unsupported operand type\(s\)|must be Tensor, not|'\w+' object has no attribute '(?P<asked>\w+)'")


def finding(error: BaseException) -> tuple[str, str, str]:
    """What is said of it, the module's name, and the line; texts without anything if no module is at fault."""
    found = SAID.search(str(error)) if isinstance(error, (TypeError, AttributeError)) else None
    if found is None or not hasattr(Tensor, found["asked"] or "shape"):
        return NOTHING
    frames = [*traceback.walk_tb(error.__traceback__)]
    running = frames[-1][0].f_locals.get("self") if frames else None  # which may lack what it asks itself for
    for frame, line in reversed(frames):
        file, owner = frame.f_code.co_filename, frame.f_locals.get("self")
        if not is_learners(frame) or not isinstance(owner, nn.Module):
            continue
        for part, whole, is_sure in _uncalled(error, frame):
            made = getattr(owner, part.attr, None)
            name = ast.unparse(part)
            is_one = isinstance(made, nn.Module) and made is not running and _is_blamed(type(made), error)
            if is_one and (is_sure or is_made_there(owner, part.attr, type(made), frame)):
                said = f"{name} is a module, which nothing calls in {ast.unparse(whole)}: a tensor is needed there."
                return said, name, linecache.getline(file, line).strip()
    return NOTHING


def _is_blamed(cls: type, error: BaseException) -> bool:
    return re.search(rf"\b{re.escape(cls.__name__)}\b", str(error)) is not None


def _uncalled(error: BaseException, frame: FrameType) -> Iterator[tuple[Any, ast.expr, bool]]:
    """Every self.part that stands for itself on the line: in what, and whether it is one for any part.

    What a lambda that takes something gives is computed from it: lambda x: self.feed_forward gives the module itself.
    """
    for statement in nodes_at(error, frame, (ast.Assign, ast.AugAssign, ast.Return, ast.Expr)):
        for node in ast.walk(statement):
            if isinstance(node, ast.Lambda) and node.args.args and _is_part(node.body):
                yield node.body, node, True
    for node in nodes_at(error, frame, (ast.BinOp, ast.Call)):
        parts = [node.left, node.right] if isinstance(node, ast.BinOp) else node.args
        yield from ((part, node, False) for part in parts if _is_part(part))


def _is_part(node: ast.expr) -> bool:
    return is_of_self(node)
