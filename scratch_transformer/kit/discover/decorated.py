"""Decorators that hide what a function takes: def wrapper(*args, **kwargs), without functools.wraps.

And those that leave a function of a class: def checked(cls): return lambda size: cls(size). And what takes a class's
name away from it: Attention = Attention(). And those that are of absent packages, or stop: they are taken away.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import types
from collections.abc import Collection
from typing import Any

from torch import nn

from scratch_transformer.kit.definitions import nodes_of
from scratch_transformer.kit.discover.placeholders import Missing

ANYTHING = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
HANDS_ON = re.compile(r"return (?:(?P<above>super\(.*\))|self)\.(?P<name>\w+)\(\*\w+, \*\*\w+\)")
"""A method that is only a way to another, of whatever is given."""


def reveal(module: types.ModuleType) -> None:
    """Lets every function and method of a module that is hidden so tell its signature, by __wrapped__."""
    for name, value in list(vars(module).items()):
        hidden = _class_within(name, value) or _class_of(name, value, module)
        if hidden is not None:
            value = hidden
            setattr(module, name, hidden)
        members = vars(value).items() if isinstance(value, type) and value.__module__ == module.__name__ else ()
        for member, function in [(name, value), *members]:
            inner = _inner(member, function) or (_handed_to(value, function) if members else None)
            if inner is not None:
                function.__wrapped__ = inner


def _class_within(name: str, function: Any) -> type | None:
    """The class of this name that a function makes instances of; None for what is no such function."""
    if not inspect.isfunction(function) or function.__code__.co_name == name:
        return None
    held = map(_contents, function.__closure__ or ())
    return next((one for one in held if isinstance(one, type) and one.__name__ == name), None)


def _class_of(name: str, value: Any, module: types.ModuleType) -> type | None:
    """The class of a module of this name, which has taken its class's name; None for anything else."""
    cls = type(value)
    is_one = isinstance(value, nn.Module) and (cls.__name__, cls.__module__) == (name, module.__name__)
    return cls if is_one else None


def _inner(name: str, function: Any) -> Any:
    """The function of this name that a wrapper calls; None for what is no such wrapper."""
    if not inspect.isfunction(function) or hasattr(function, "__wrapped__") or function.__code__.co_name == name:
        return None
    held = [_contents(cell) for cell in function.__closure__ or ()] if _takes_anything(function) else []
    return next((one for one in held if inspect.isfunction(one) and one.__code__.co_name == name), None)


def _takes_anything(function: types.FunctionType) -> bool:
    return function.__code__.co_flags & ANYTHING == ANYTHING


def _handed_to(cls: type, function: Any) -> Any:
    """What one does that returns super().forward(*args, **kwargs), or self.run(*args, **kwargs); None for any other."""
    is_hidden = inspect.isfunction(function) and not hasattr(function, "__wrapped__") and _takes_anything(function)
    if not is_hidden or function.__name__.startswith("__"):
        return None
    returned = nodes_of(function, ast.Return)
    found = HANDS_ON.fullmatch(ast.unparse(returned[0])) if len(returned) == 1 else None
    inner = [vars(base).get(found["name"]) for base in cls.__mro__[1 if found["above"] else 0 :]] if found else []
    return next((one for one in inner if inspect.isfunction(one) and one is not function), None)


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a name that is not bound yet
        return None


# ---- What is taken away ----


def without_missing(node: ast.stmt, module: types.ModuleType) -> bool:
    """Whether a definition, or methods of it, had decorators of absent packages, which are taken away."""
    found = False
    for one in _decorated(node):
        kept = [] if one is node else [d for d in one.decorator_list if not _is_missing(d, module)]
        found |= len(kept) < len(one.decorator_list)
        one.decorator_list = kept
    return found


AGAIN = re.compile(
    r"\balready\b.*\b(registered|exists|defined|taken)|\bduplicate\b|registered (already|twice)", re.IGNORECASE
)
"""What a registry says of a name that it has, as of a class of a file that is run a second time."""
AT_DEFINITION = sys.version_info < (3, 11)
"""Whether what a decorator does is said to be done at the line of the definition, and not at its own."""


def without_one_at(node: ast.stmt, lines: Collection[int], again: ast.Module | None = None) -> tuple[str, int]:
    """The name and the line of a decorator of a function or a method on one of these lines, which is taken away.

    "" if none is there. again: the file, where a registry says that it has the name: then of a class, too, if the file
    registers it once.
    """
    every = [ast.unparse(one) for other in (_decorated(again) if again else ()) for one in other.decorator_list]
    for one in _decorated(node):
        is_there = AT_DEFINITION and one.lineno in lines and len(one.decorator_list) == 1
        for decorator in one.decorator_list:
            is_first = every.count(ast.unparse(decorator)) == 1
            is_at = is_there or decorator.lineno in lines
            if is_at and (is_first if again else not isinstance(one, ast.ClassDef)):
                one.decorator_list.remove(decorator)
                name = decorator.func if isinstance(decorator, ast.Call) else decorator
                return ast.unparse(name), decorator.lineno
    return "", 0


def _decorated(node: ast.AST) -> list[Any]:
    return [one for one in ast.walk(node) if getattr(one, "decorator_list", None)]


def _is_missing(decorator: ast.expr, module: types.ModuleType) -> bool:
    name = next((one.id for one in ast.walk(decorator) if isinstance(one, ast.Name)), "")
    return isinstance(vars(module).get(name), Missing)
