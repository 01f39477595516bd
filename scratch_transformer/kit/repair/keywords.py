"""Arguments whose name is misspelt, x.mean(-1, keep_dim=True), and those that nn.Module is given in vain."""

from __future__ import annotations

import ast
import inspect
import re
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn

from scratch_transformer.kit.definitions import text_of_file
from scratch_transformer.kit.judge.frames import nodes_at
from scratch_transformer.kit.judge.stops import told_in_vain
from scratch_transformer.kit.mistakes.construction import OF_MODULES
from scratch_transformer.kit.repair import alike
from scratch_transformer.kit.repair.edits import Edit, Repair

UNEXPECTED = re.compile(r"got an unexpected keyword argument '(\w+)'")


def of_argument(error: BaseException, frame: FrameType, name: str) -> Repair | None:
    """An argument that what is called by this name does not take, where it takes one that is meant."""
    found = UNEXPECTED.search(str(error))
    for call in nodes_at(error, frame, ast.Call) if isinstance(error, TypeError) else ():
        if ast.unparse(call.func) != name or any(word.arg is None for word in call.keywords):
            continue
        parameters = taken(call.func, frame)
        wrong = [word for word in call.keywords if word.arg not in parameters and (not found or found[1] == word.arg)]
        meant = _meant(str(wrong[0].arg), parameters, call) if wrong and parameters else ""
        if meant:
            edit = Edit(wrong[0].lineno, wrong[0].col_offset, str(wrong[0].arg), meant)
            fix = f"{meant} in place of {wrong[0].arg}: {name} takes no {wrong[0].arg}."
            return Repair(frame.f_code.co_filename, frame.f_globals, fix, (edit,))
    return None


def of_base(error: BaseException, frame: FrameType, name: str) -> Repair | None:
    """What nn.Module's constructor is given, and takes nothing: left out."""
    for call, given in told_in_vain.calls(error, frame):
        text = ast.get_source_segment(text_of_file(frame.f_code.co_filename), call) or ""
        if given and ast.unparse(call.func) == name and text and "\n" not in text:
            put = f"{name}({'' if name.startswith('super') else 'self'})"
            edit = Edit(call.lineno, call.col_offset, text, put)
            return Repair(frame.f_code.co_filename, frame.f_globals, OF_MODULES, (edit,))
    return None


def _meant(name: str, parameters: dict[str, bool], call: ast.Call) -> str:
    """The parameter that is meant, of those that are not given; "" if there is none, or may be several.

    Of what must be given, and is not, a name that only means the same will do.
    """
    places = len(call.args) if all(not isinstance(one, ast.Starred) for one in call.args) else 0
    given = {*list(parameters)[:places], *(word.arg for word in call.keywords)}
    free = [one for one in parameters if one not in given]
    if found := alike.only_one(name, free):
        return found
    asked = [one for one in free if parameters[one]]
    is_one = len(asked) == 1 and alike.means(name, asked[0]) and not any(alike.is_misspelt(name, one) for one in free)
    return asked[0] if is_one else ""


def taken(callee: ast.expr, frame: FrameType) -> dict[str, bool]:
    """The parameters of what is called, and whether they must be given; {} if they are not known."""
    owner = _of(callee.value, frame) if isinstance(callee, ast.Attribute) else None
    thing = _of(callee, frame)
    if isinstance(thing, nn.Module):
        thing = thing.forward
    elif isinstance(callee, ast.Attribute) and (owner is None or isinstance(owner, Tensor)):
        return _of_operator(callee.attr) if hasattr(Tensor, callee.attr) else {}  # of what a line computes: a tensor
    if thing is None:
        return {}
    try:
        known = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        name = getattr(thing, "__name__", "")
        return _of_operator(name) if getattr(torch, name, None) is thing or hasattr(nn.functional, name) else {}
    if any(one.kind is one.VAR_KEYWORD for one in known):
        return {}
    return {one.name: one.default is one.empty for one in known if one.kind is not one.VAR_POSITIONAL}


def _of_operator(name: str) -> dict[str, bool]:
    """The names of all arguments that torch's operator takes in any of its forms."""
    try:
        operator = getattr(torch.ops.aten, name)
        schemas = [getattr(operator, form)._schema for form in operator.overloads()]
    except AttributeError:
        return {}
    names = [one.name for schema in schemas for one in schema.arguments]
    return {one: False for one in names if one not in ("self", "input", "out", "generator")}


def _of(node: ast.expr, frame: FrameType) -> Any:
    """What a name, or an attribute of one, is in a frame; None for anything else."""
    if isinstance(node, ast.Name):
        return frame.f_locals.get(node.id, frame.f_globals.get(node.id))
    if isinstance(node, ast.Attribute) and (owner := _of(node.value, frame)) is not None:
        return (
            inspect.getattr_static(owner, node.attr, None)
            if isinstance(owner, Tensor)
            else getattr(owner, node.attr, None)
        )
    return None
