"""Methods whose name is misspelt: foward, __int__."""

from __future__ import annotations

import ast
import inspect
import sys

from scratch_transformer.kit.judge.stops import no_forward
from scratch_transformer.kit.repair.edits import Edit, Repair, around

CONSTRUCTOR = "__init__"


def of_forward(cls: type) -> Repair | None:
    """The method that is to be forward, of a class that has none."""
    named = [name for name, member in vars(cls).items() if inspect.isfunction(member) and no_forward.is_misspelt(name)]
    is_lost = "is called" in no_forward.lost(cls)[0]
    return renamed(cls, named[0], no_forward.FORWARD) if is_lost and len(named) == 1 else None


def of_constructor(cls: type, name: str) -> Repair | None:
    """The method that would be the constructor, of a class that has none."""
    is_one = name.startswith("__") and inspect.isfunction(vars(cls).get(name)) and CONSTRUCTOR not in vars(cls)
    return renamed(cls, name, CONSTRUCTOR) if is_one else None


def renamed(cls: type, old: str, new: str) -> Repair | None:
    """A method under another name."""
    method, module = vars(cls)[old], sys.modules.get(cls.__module__)
    code = getattr(method, "__code__", None)
    if code is None or module is None:
        return None
    head = around(code.co_filename, code.co_firstlineno, ast.FunctionDef)
    if not isinstance(head, ast.FunctionDef) or head.name != old or head.decorator_list:
        return None
    edit = Edit(head.lineno, head.col_offset + len("def "), old, new)
    return Repair(code.co_filename, vars(module), f"{new} in place of {old}.", (edit,), renamed=(cls, old, new))
