"""What a constructor is given and does not keep: forward reads self.eps, or eps, and nothing has set self.eps = eps."""

from __future__ import annotations

import ast
from types import FrameType

from torch import nn

from scratch_transformer.kit.judge.frames import line_of
from scratch_transformer.kit.judge.stops.attributes import is_set_nowhere, own_classes
from scratch_transformer.kit.repair.edits import Edit, Repair, around, is_called, of_names
from scratch_transformer.kit.syntax import method_of


def of_parameter(error: BaseException, frame: FrameType, name: str) -> Repair | None:
    """self.eps = eps in the constructor, which is given eps, and self.eps wherever a method reads eps itself."""
    owner, kept, file = frame.f_locals.get("self"), name.removeprefix("self."), frame.f_code.co_filename
    cls, method = (around(file, line_of(error, frame), sort) for sort in (ast.ClassDef, ast.FunctionDef))
    is_one = (type(error) is NameError and kept == name) or (isinstance(error, AttributeError) and kept != name)
    if not is_one or not isinstance(owner, nn.Module) or not isinstance(cls, ast.ClassDef) or method is None:
        return None
    make = method_of(cls, "__init__")
    given = [one.arg for one in [*make.args.args[1:], *make.args.kwonlyargs]] if make is not None else []
    if make is None or make is method or kept not in given or not is_set_nowhere(kept, owner, own_classes(owner)):
        return None
    used = [node for node in ast.walk(cls) if ast.unparse(node) == name] if isinstance(error, AttributeError) else []
    used += [node for node in ast.walk(method) if isinstance(node, ast.Name) and node.id == name]
    place = _behind_super(make)
    if place is None or not kept.isidentifier() or any(is_called(node, cls) for node in used):
        return None
    own = of_names(ast.walk(method), name, f"self.{kept}") if kept == name else ()
    fix = f"self.{kept} = {kept} in __init__{f', and self.{kept} in place of {kept}' if own else ''}."
    kept_there = Edit(place.lineno, place.col_offset, "", f"self.{kept} = {kept}; ")
    return Repair(file, frame.f_globals, fix, (*own, kept_there))


def _behind_super(make: ast.FunctionDef) -> ast.stmt | None:
    """The statement behind super().__init__(), on a line of its own, that takes another before it."""
    pairs = zip(make.body, make.body[1:], strict=False)
    calls = (after for one, after in pairs if isinstance(one, ast.Expr) and "__init__" in ast.unparse(one))
    after = next(calls, None)
    return after if isinstance(after, (ast.Assign, ast.Expr, ast.AnnAssign)) else None
