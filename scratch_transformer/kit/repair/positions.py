"""Positions that are written out, torch.LongTensor([[0, 1, 2, 3, 4]]): those of as many tokens as there are."""

from __future__ import annotations

import ast
import builtins
from types import FrameType
from typing import Any

from scratch_transformer.kit.definitions import file_of, namespace_of, text_of_file
from scratch_transformer.kit.judge.frames import line_of, nodes_at
from scratch_transformer.kit.judge.stops.written_positions import Written
from scratch_transformer.kit.repair.edits import Edit, Repair, around
from scratch_transformer.kit.syntax import Function, names_within


def of_written(error: BaseException, frame: FrameType, name: str) -> Repair | None:
    """Of those that stop with a sequence of another length."""
    file = frame.f_code.co_filename
    function = around(file, line_of(error, frame), Function)
    calls = [node for node in nodes_at(error, frame, ast.Call) if ast.unparse(node) == name]
    is_one = len(calls) == 1 and isinstance(function, Function)
    return _counted(calls[0], function, file, frame.f_globals) if is_one else None  # type: ignore[arg-type]


def of_found(thing: Any, found: Written) -> Repair | None:
    """Of those that fit the number of tokens that they were tried with."""
    return _counted(found.call, found.function, file_of(thing), namespace_of(thing))


def _counted(call: ast.Call, function: Function, file: str, namespace: dict[str, Any]) -> Repair | None:
    """torch.arange of as many as the tokens that they are added to, or that forward is given first."""
    old = ast.get_source_segment(text_of_file(file), call) or ""
    lines = [one for one in function.body if one.lineno <= call.lineno <= (one.end_lineno or 0)]
    known = {*namespace, *vars(builtins), "self"}
    names = sorted(names_within(node.value for node in lines if isinstance(node, ast.Assign | ast.AugAssign)) - known)
    given = [one.arg for one in function.args.args if one.arg != "self"]
    named = names if len(names) == 1 else given[:1] if not names else []
    if not old or "\n" in old or not named or "torch" not in namespace:
        return None
    new = f"torch.arange({named[0]}.size(1), device={named[0]}.device)"
    return Repair(
        file, namespace, f"{new} counts as many as there are.", (Edit(call.lineno, call.col_offset, old, new),)
    )
