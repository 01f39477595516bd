"""Names that nothing defines, for which exactly one other is meant, or which one file beside this one defines."""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from torch import nn

from scratch_transformer.kit.judge.frames import line_of, parsed
from scratch_transformer.kit.judge.stops import meant as meant_by
from scratch_transformer.kit.judge.stops.attributes import own_classes
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.repair import alike
from scratch_transformer.kit.repair.attributes import set_on, valued
from scratch_transformer.kit.repair.edits import Repair, around, is_called, of_names
from scratch_transformer.kit.resolve import likeness
from scratch_transformer.kit.resolve.names.words import words
from scratch_transformer.kit.syntax import DEFINITIONS, Function, names_within, nodes_in

OF_TORCH = {"Linear", "Dropout", "ReLU", "GELU", "Softmax", "ModuleList", "ModuleDict", "Sequential", "Parameter",
            "Module"}  # fmt: skip
"""What learners take from torch.nn, and write no class of their own for."""
Load = Callable[[Path], dict[str, Any]]
"""From the path of a file to what it defines."""


def of_name(error: BaseException, frame: FrameType, name: str, load: Load) -> Repair | None:
    """hiddne_dim, where the function is given hidden_dim; num_heads, where there is self.num_heads; a class beside."""
    file, line = frame.f_code.co_filename, line_of(error, frame)
    function, whole = around(file, line, Function), around(file, line, outermost=True)
    if type(error) is not NameError or error.name != name or whole is None:
        return None
    here = [(other, function) for other in _of_object(name, frame, function)]
    here += [(other, function) for other in _of_function(name, frame, function)]
    here += [(other, whole) for other in _of_file(name, frame, whole)]
    if any(within is whole for _, within in here) and meant_by.defining(name, Path(file)):
        return None  # the file has one like it, and another file the thing itself
    if len(here) == 1 and (within := here[0][1]) is not None:
        other, edits = here[0][0], of_names(ast.walk(within), name, here[0][0])
        return Repair(file, frame.f_globals, f"{other} in place of {name}, if that is what is meant.", edits)
    return _of_neighbours(name, frame, load) if not here else None


def _of_object(name: str, frame: FrameType, function: ast.AST | None) -> list[str]:
    """The attribute of this name that the object has itself: num_heads, for self.num_heads."""
    around_it: FrameType | None = frame  # a comprehension's is within the function's
    while around_it is not None and around_it.f_code.co_name != getattr(function, "name", ""):
        around_it = around_it.f_back
    owner = around_it.f_locals.get("self") if around_it is not None else None
    if function is None or not isinstance(owner, nn.Module) or name not in set_on(owner, own_classes(owner)):
        return []
    called = all(is_called(node, function) for node in _reads(name, function))
    return [f"self.{name}"] if called or not inspect.ismethod(valued(owner, name)) else []


def _of_function(name: str, frame: FrameType, function: ast.AST | None) -> list[str]:
    """What a function is given, or gives a name itself, of which this is a misspelling; or is given for nothing."""
    if not isinstance(function, Function):
        return []
    given = [one.arg for one in ast.walk(function.args) if isinstance(one, ast.arg) and one.arg != "self"]
    stored = [n.id for n in nodes_in(function, ast.Name) if isinstance(n.ctx, ast.Store)]
    called = any(is_called(node, function) for node in _reads(name, function))
    fits = [one for one in dict.fromkeys([*given, *stored]) if not called or callable(frame.f_locals.get(one))]
    if found := alike.only_one(name, fits):
        return [found]
    if not called and (found := alike.one_setting(name, fits)):
        return [found]
    fitting = [one for one in fits if alike.is_misspelt(name, one)]
    unread = [one for one in given if one in fits and not _reads(one, function) and alike.means(name, one)]
    return fitting or unread


def _of_file(name: str, frame: FrameType, whole: ast.AST) -> list[str]:
    """What the file defines, Python has, or torch.nn has, of which this is a misspelling, or the name without nn."""
    called = any(is_called(node, whole) for node in _reads(name, whole))
    own = {one: value for one, value in frame.f_globals.items() if not one.startswith("_")}
    fits = [one for one, value in own.items() if callable(value) or not called]
    found = [one for one in fits if alike.is_misspelt(name, one)]
    if (one := alike.only_one(name, fits)) or found:
        return [one] if one else found
    if called and (one := _of_its_kind(name, frame)):
        return [one]
    if name in OF_TORCH and own.get("nn") is nn:
        return [f"nn.{name}"]
    pythons = [one for one, value in vars(builtins).items() if callable(value)] if called else ["True", "False", "None"]
    return [one] if not name.endswith("s") and (one := alike.only_one(name, pythons)) else []


def _of_its_kind(name: str, frame: FrameType) -> str:
    """The only class of the file that is what this name says, and that nothing else uses; "" if there is none.

    MultiHeadAttention, for SelfAttention.
    """
    home, nodes = frame.f_globals.get("__name__"), parsed(frame.f_code.co_filename)
    classes = [one for one in frame.f_globals.values() if isinstance(one, type) and one.__module__ == home]
    found = [one.__name__ for one in classes if _kind(name) and _kind(one.__name__) == _kind(name)]
    top = getattr(nodes[0], "body", []) if nodes else []
    others = [node for node in top if isinstance(node, DEFINITIONS) and node.name not in found]
    return found[0] if len(found) == 1 and found[0] not in names_within(others) else ""


def _kind(name: str) -> str | None:
    kind = likeness.kind_named(name, KINDS)
    if kind is None or not kind.endswith("Attention"):
        return kind
    return "Attention" if "attention" in words(name) and {*words(name)} <= OF_SELF else None


OF_SELF = {"self", "multi", "multihead", "head", "headed", "heads", "attention"}
"""Words of attention's names that tell none from another: a Head is another, and so is a CrossAttention."""


def _reads(name: str, within: ast.AST) -> list[ast.Name]:
    return [node for node in nodes_in(within, ast.Name) if node.id == name and isinstance(node.ctx, ast.Load)]


def _of_neighbours(name: str, frame: FrameType, load: Load) -> Repair | None:
    """What exactly one file beside this one defines under that name."""
    files = meant_by.defining(name, Path(frame.f_code.co_filename))
    value = load(files[0]).get(name) if len(files) == 1 else None
    if value is None:
        return None
    fix = f"{meant_by.import_of(name, frame)}, at the beginning of the file."
    return Repair(frame.f_code.co_filename, frame.f_globals, fix, brought={name: value})
