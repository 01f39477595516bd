"""Attributes that nothing sets, or that torch does not have, for which exactly one other is meant."""

from __future__ import annotations

import ast
import inspect
from types import FrameType, ModuleType
from typing import Any

from torch import Tensor, nn

from scratch_transformer.kit.definitions import nodes_of
from scratch_transformer.kit.judge.frames import function_of, line_of, nodes_at
from scratch_transformer.kit.judge.stops.attributes import given_to, is_own_module, is_set_nowhere, own_classes, read_by
from scratch_transformer.kit.repair import alike
from scratch_transformer.kit.repair.edits import Repair, around, is_called, of_attributes, of_whole_attributes
from scratch_transformer.kit.syntax import is_of_self, nodes_in

UNKNOWN = object()
"""What an attribute is that a constructor sets after the line where it stops."""
LISTS = (nn.ModuleList, nn.ModuleDict, nn.ParameterList)


def of_itself(error: BaseException, frame: FrameType, name: str) -> Repair | None:
    """self.n_heads, where the class sets self.num_heads; self.d_model, where the constructor is only given d_model."""
    owner, read = frame.f_locals.get("self"), name.removeprefix("self.")
    is_one = isinstance(error, AttributeError) and name == f"self.{read}"
    if not is_one or not isinstance(owner, nn.Module) or f"attribute '{read}'" not in str(error):
        return None
    file, line = frame.f_code.co_filename, line_of(error, frame)
    nowhere = is_set_nowhere(read, owner, own_classes(owner))
    if frame.f_code.co_name == "__init__" and _is_given(read, frame):
        here = nodes_in(function_of(frame), ast.Attribute) if nowhere else nodes_at(error, frame, ast.Attribute)
        edits = of_whole_attributes(here, name, read)
        return Repair(file, frame.f_globals, f"{read}, which the constructor is given, in place of {name}.", edits)
    cls = around(file, line, ast.ClassDef)
    meant = _meant(owner, read, cls) if nowhere and cls is not None else ""
    if not meant or cls is None:
        return None
    edits = of_attributes(ast.walk(cls), lambda one: ast.unparse(one) == name, meant)
    return Repair(file, frame.f_globals, of_one_set(f"self.{meant}", name), edits)


def of_one_set(meant: str, name: str) -> str:
    """The fix in words."""
    return f"{meant}, which is set, in place of {name}, if that is what is meant."


def _is_given(name: str, frame: FrameType) -> bool:
    code = frame.f_code
    return name in code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]


def _meant(owner: nn.Module, name: str, cls: ast.AST) -> str:
    """The attribute that is meant by one that nothing sets; "" if there is none, or may be several."""
    classes = own_classes(owner)
    others = [one for one in read_by(classes) if one != name and is_set_nowhere(one, owner, classes)]
    found = _like(owner, name, cls)
    return "" if any(_like(owner, other, cls) == found for other in others) else found


def _like(owner: nn.Module, name: str, cls: ast.AST) -> str:
    classes = own_classes(owner)
    uses = [node for node in nodes_in(cls, ast.Attribute) if ast.unparse(node) == f"self.{name}"]
    fits = [one for one in set_on(owner, classes) if all(_fits(valued(owner, one), node, cls) for node in uses)]
    if found := alike.only_one(name, fits):
        return found
    if not any(is_called(node, cls) for node in uses) and (found := alike.one_setting(name, fits)):
        return found
    unread = [one for one in fits if one not in read_by(classes) and not hasattr(type(owner), one)]
    meant = [one for one in unread if alike.means(name, one)]
    if len(meant) != 1 or any(alike.is_misspelt(name, one) for one in fits):
        return ""
    part = valued(owner, meant[0])
    rivals = [one for one in unread if isinstance(part, nn.Module) and type(valued(owner, one)) is type(part)]
    return meant[0] if len(rivals) < 2 else ""  # of two linear layers that nothing uses, either may be meant


def set_on(owner: nn.Module, classes: list[type]) -> list[str]:
    """The attributes that an object has or that its classes set, and their methods."""
    own = given_to(owner)
    stored = [n for cls in classes for n in nodes_of(cls, ast.Attribute) if isinstance(n.ctx, ast.Store)]
    own += [node.attr for node in stored if is_of_self(node)]
    own += [name for cls in classes for name, member in vars(cls).items() if inspect.isfunction(member)]
    return [one for one in dict.fromkeys(own) if not one.startswith("_") and one not in ("training", "forward")]


def valued(owner: nn.Module, name: str) -> Any:
    """What an attribute is."""
    return getattr(owner, name, UNKNOWN)


def _fits(value: Any, node: ast.Attribute, within: ast.AST) -> bool:
    """Whether a value can be used as an attribute is: a module is called, a list of them is gone through."""
    if value is UNKNOWN:
        return True
    called = is_called(node, within)
    if isinstance(value, LISTS):
        return not called
    if isinstance(value, nn.Module):
        return called or any(isinstance(one, ast.Attribute) and one.value is node for one in ast.walk(within))
    if inspect.ismethod(value):
        return called
    return callable(value) or not called


def of_others(error: BaseException, frame: FrameType, name: str) -> Repair | None:
    """nn.linear, x.tranpose(1, 2), layer.weigth: what torch, a tensor, a part or a file has under a name like it."""
    owner, read = getattr(error, "obj", None), str(getattr(error, "name", None) or "")
    if not isinstance(error, AttributeError) or not read or name.rpartition(".")[2] != read:
        return None
    file, line = frame.f_code.co_filename, line_of(error, frame)
    nodes = [node for node in nodes_at(error, frame, ast.Attribute) if node.attr == read]
    had = [one for one in _had(owner) if not one.endswith("_") or read.endswith("_")]  # x.copy() is no x.copy_()
    meant, within = alike.only_one(read, had), around(file, line, outermost=True)
    if not meant or not nodes or within is None or owner is frame.f_locals.get("self"):
        return None
    written = ast.unparse(nodes[0].value)
    is_any = isinstance(owner, Tensor)  # whatever the tensor is called
    edits = of_attributes(
        ast.walk(within), lambda one: one.attr == read and (is_any or ast.unparse(one.value) == written), meant
    )
    return Repair(file, frame.f_globals, f"{meant} in place of {read}.", edits)


def _had(owner: Any) -> list[str]:
    """What a module, torch's tensors or a learner's part have; nothing for anything else."""
    if isinstance(owner, (ModuleType, Tensor)):
        return [one for one in dir(owner) if not one.startswith("_")]
    return set_on(owner, own_classes(owner)) if is_own_module(owner, type(owner).__name__) else []


def of_modules(error: BaseException, frame: FrameType, name: str) -> Repair | None:
    """nn.parameter(…), which is a module, where the class Parameter is meant."""
    within = around(frame.f_code.co_filename, line_of(error, frame), outermost=True)
    owner: Any = None
    for part in name.split(".")[:-1]:
        owner = frame.f_globals.get(part) if owner is None else getattr(owner, part, None)
    read = name.rpartition(".")[2]
    if type(error) is not TypeError or not isinstance(owner, ModuleType) or within is None:
        return None
    called = [one for one in dir(owner) if callable(getattr(owner, one, None))]
    if not isinstance(getattr(owner, read, None), ModuleType) or not (meant := alike.only_one(read, called)):
        return None
    edits = of_attributes(ast.walk(within), lambda one: ast.unparse(one) == name, meant)
    return Repair(frame.f_code.co_filename, frame.f_globals, f"{meant} in place of {read}.", edits)


def of_shapes(error: BaseException, frame: FrameType, name: str) -> Repair | None:
    """x.size[0] and x.shape(0), where x.shape[0] and x.size(0) are meant."""
    owner, _, read = name.rpartition(".")
    other = {"size": "shape", "shape": "size"}.get(read)
    if type(error) is not TypeError or other is None:
        return None
    found = nodes_at(error, frame, ast.Subscript if read == "size" else ast.Call)
    used = [node.value if isinstance(node, ast.Subscript) else node.func for node in found]
    edits = of_attributes(used, lambda one: ast.unparse(one) == name, other)
    return Repair(frame.f_code.co_filename, frame.f_globals, f"{owner}.{other} in place of {name}.", edits)
