"""Methods whose name is misspelt, foward, __int__; constructors that do not call their base's first."""

from __future__ import annotations

import ast
import inspect
import re
import sys

from torch import nn

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


def of_base(cls: type) -> Repair | None:
    """super().__init__() at the beginning of a constructor that does not call it, or too late; or with its brackets.

    What another base than nn.Module is to be told, nobody knows.
    """
    make, module = vars(cls).get(CONSTRUCTOR), sys.modules.get(cls.__module__)
    makers = [one for one in cls.__mro__[1:] if CONSTRUCTOR in vars(one)]
    if not inspect.isfunction(make) or module is None or makers[:1] != [nn.Module]:
        return None
    head = around(make.__code__.co_filename, make.__code__.co_firstlineno, ast.FunctionDef)
    whole = around(make.__code__.co_filename, make.__code__.co_firstlineno, ast.ClassDef)
    if not isinstance(head, ast.FunctionDef) or not isinstance(whole, ast.ClassDef) or not whole.bases:
        return None
    found = _without_brackets(head) or _at_the_beginning(head, ast.unparse(whole.bases[0]))
    return Repair(make.__code__.co_filename, vars(module), BASE_FIRST, found) if found else None


BASE_FIRST = "super().__init__() as the first line of __init__."


def _without_brackets(head: ast.FunctionDef) -> tuple[Edit, ...]:
    """super.__init__(), super(self).__init__()."""
    calls = [n.value for n in ast.walk(head) if isinstance(n, ast.Attribute) and n.attr == CONSTRUCTOR]
    wrong = [(n, ast.unparse(n)) for n in calls if ast.unparse(n) in ("super", "super(self)")]
    return tuple(Edit(node.lineno, node.col_offset, text, "super()") for node, text in wrong)


def _at_the_beginning(head: ast.FunctionDef, base: str) -> tuple[Edit, ...]:
    """Before the first statement, if that takes another on its line; a call that comes later is left out.

    nn.Module.__init__(self), where there is none: a function that was made without super() cannot have it later.
    """
    body = head.body[1:] if ast.get_docstring(head, clean=False) is not None else head.body
    calls = [x for x in body if isinstance(x, ast.Expr) and re.match(r"super\(.*\)\.__init__\(\)$", ast.unparse(x))]
    text = ast.unparse(calls[0]) if calls else f"{base}.__init__(self)"
    if (
        not body
        or body[0] in calls
        or hasattr(body[0], "body")
        or (not calls and any("__init__" in ast.unparse(one) for one in body))
    ):
        return ()
    late = [Edit(one.lineno, one.col_offset, ast.unparse(one), "pass") for one in calls]
    return (Edit(body[0].lineno, body[0].col_offset, "", f"{text}; "), *late)


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
