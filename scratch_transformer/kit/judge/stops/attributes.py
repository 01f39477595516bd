"""B26: attributes that nothing sets: self.hiddne_dim, layer.size, model.generate."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from types import FrameType

from torch import nn

from scratch_transformer.kit.definitions import (
    file_of,
    is_of_torch,
    is_own,
    namespace_of,
    nodes_of,
    source_of,
    text_of_file,
    tree_of,
)
from scratch_transformer.kit.discover import heirs
from scratch_transformer.kit.judge.frames import function_of, nodes_at
from scratch_transformer.kit.judge.stops import unset
from scratch_transformer.kit.syntax import DEFINITIONS, Function, is_of_self, is_text, nodes_in, tree_from

NOTHING = ("", "")
OF_MODELS = re.compile(
    r"^class \w*(Transformer|Model|GPT|Seq2Seq|EncoderDecoder|Llama)\(", re.MULTILINE | re.IGNORECASE
)
OF_ATTRIBUTES = re.compile(r"^'(\w+)' object has no attribute '(\w+)'")


def of_itself(error: BaseException, frame: FrameType) -> tuple[str, str]:
    """self.x in a method of a module, where neither its classes nor any line of their files ever set x."""
    found, owner = read_in_vain(error), frame.f_locals.get("self")
    if not is_own_module(owner, found[0]):
        return NOTHING
    classes = own_classes(owner)
    if any(heirs.fill_in(cls, found[1]) for cls in classes):
        return NOTHING
    if misspelt := _constructor_by_another_name(type(owner)):
        said = f"It reads self.{found[1]}: {found[0]}.{misspelt} would set it, and Python runs __init__ alone."
        return said, misspelt
    if any({found[1], "setattr"} & _set_in(_text_without(error, frame, found[1], cls), cls) for cls in classes):
        argument = unset.without(classes, found[1], "\n".join(dict.fromkeys(map(text_of, classes))))
        said = f"It reads self.{found[1]}, which {found[0]} does not set where {argument}, as by default."
        return (said, f"self.{found[1]}") if argument else NOTHING
    others = [f"self.{name}" for name in read_by(classes) if name != found[1] and is_set_nowhere(name, owner, classes)]
    nor = f"; nor is {' or '.join(others)} set" if others else ""
    return f"It reads self.{found[1]}, which nothing in {found[0]} or its file sets{nor}.", f"self.{found[1]}"


def read_by(classes: list[type]) -> list[str]:
    """The attributes of itself that an object of these classes reads, in the order of their code."""
    read = [node for cls in classes for node in nodes_of(cls, ast.Attribute) if isinstance(node.ctx, ast.Load)]
    return list(dict.fromkeys(node.attr for node in read if is_of_self(node)))


def given_to(owner: object) -> list[str]:
    """The attributes that a module was given."""
    if not isinstance(owner, nn.Module):
        return []
    own = [one for one in vars(owner) if not one.startswith("_") and one != "training"]
    return [*own, *owner._modules, *owner._parameters, *owner._buffers]


def is_set_nowhere(name: str, owner: object, classes: list[type]) -> bool:
    """Whether an object has no such attribute, and nothing in the files of its classes, or of their heirs, sets one."""
    is_absent = not hasattr(owner, name) and not any({name, "setattr"} & _set_in(text_of(cls), cls) for cls in classes)
    return is_absent and not any(heirs.fill_in(cls, name) for cls in classes)


def left_to_heirs(cls: type) -> str:
    """What the forward of a class calls of itself that those alone have which inherit from it: _forward; else ""."""
    forward = getattr(cls, "forward", None)
    called = [node.func for node in nodes_of(forward, ast.Call) if is_of_self(node.func)] if forward else []
    names = [one.attr for one in called if not hasattr(cls, one.attr)]
    own = [one for one in _own_of(cls) if is_own(one)]
    given = {name for one in own for name in _set_in(text_of(one), one)} if names else set()
    left = (name for name in names if name not in given and any(heirs.fill_in(one, name) for one in own))
    return next(left, "")


def _text_without(error: BaseException, frame: FrameType, name: str, cls: type) -> str:
    """The file of a class, without the line that reads self.x to set it: self.dropout = nn.Dropout(self.dropout)."""
    text = text_of(cls)
    for node in nodes_at(error, frame, (ast.Assign, ast.AugAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        lines = text.splitlines(keepends=True)
        is_here = text == text_of_file(frame.f_code.co_filename)
        if is_here and [ast.unparse(target) for target in targets] == [f"self.{name}"]:
            indent = lines[node.lineno - 1][: node.col_offset]
            lines[node.lineno - 1 : node.end_lineno] = [f"{indent}pass\n"]
            return "".join(lines)
    return text


def _constructor_by_another_name(cls: type) -> str:
    """__int__, where a class has no __init__, and something else that calls super().__init__()."""
    codes = {name: member.__code__ for name, member in vars(cls).items() if inspect.isfunction(member)}
    others = [name for name, code in codes.items() if {"super", "__init__"} <= set(code.co_names)]
    return others[0] if "__init__" not in vars(cls) and len(others) == 1 else ""


def of_a_part(error: BaseException, frame: FrameType) -> tuple[str, str]:
    """layer.x of a module that it is given or has, where no class of these files ever sets x."""
    found, path = read_in_vain(error), frame.f_code.co_filename
    for node in nodes_at(error, frame, ast.Attribute) if found[1] else ():
        owner, written = _valued(node.value, frame), ast.unparse(node.value)
        if node.attr != found[1] or written == "self" or not is_own_module(owner, found[0]):
            continue
        texts = {text_of_file(path), *map(text_of, own_classes(owner))}
        own = _set_by_itself(node.value, owner, frame)
        if not {found[1], "setattr"} & (own or {name for text in texts for name in _set_in(text, None)}):
            where = found[0] if own else f"{found[0]} or its file"
            return f"It reads {written}.{found[1]}, which nothing in {where} sets.", f".{found[1]}"
    return NOTHING


def _set_by_itself(node: ast.expr, owner: object, frame: FrameType) -> frozenset[str]:
    """What a class may give an object of its own, which a function has just made, embedding = Embedding(…), and that
    nothing else has had since; nothing for any other object.
    """
    function = function_of(frame)
    if function is None or not isinstance(node, ast.Name):
        return frozenset()
    before = [one for one in ast.walk(function) if getattr(one, "lineno", node.lineno) < node.lineno]
    given = [n.value for n in before if isinstance(n, ast.Assign) and [*map(ast.unparse, n.targets)] == [node.id]]
    made = given[0] if len(given) == 1 else None
    is_new = isinstance(made, ast.Call) and ast.unparse(made.func) == type(owner).__name__
    named = [one for one in before if isinstance(one, ast.Name) and one.id == node.id]
    classes = own_classes(owner)
    if (
        not is_new
        or len(named) != 1
        or any(re.search(r"(?<!def )\b(?!super)\w+\(self[,)]", source_of(c)) for c in classes)
    ):
        return frozenset()
    return frozenset({"__init__"}).union(*(told_in(source_of(cls)) for cls in classes))


def of_the_model(error: BaseException, frame: FrameType) -> tuple[str, str]:
    """model.generate(…) in what writes text, beside a model in whose file nothing is called so."""
    (cls, name), text = read_in_vain(error), text_of_file(frame.f_code.co_filename)
    if cls != "ToyModel" or not OF_MODELS.search(text) or {name, "setattr"} & _set_in(text, None):
        return NOTHING
    reads = [node for node in nodes_at(error, frame, ast.Attribute) if node.attr == name]
    return (f"It reads {ast.unparse(reads[0])}, which no class of its file has.", f".{name}") if reads else NOTHING


def read_in_vain(error: BaseException) -> tuple[str, str]:
    """The class and the attribute of which an error says that there is none."""
    found = OF_ATTRIBUTES.match(str(error)) if isinstance(error, AttributeError) else None
    return (found[1], found[2]) if found else NOTHING


def is_own_module(owner: object, name: str) -> bool:
    """Whether it is a module of a class of this name, of the learner's alone."""
    if not isinstance(owner, nn.Module) or type(owner).__name__ != name:
        return False
    classes = own_classes(owner)
    is_own = bool(classes) and not any(cls.__module__.startswith("scratch_transformer.kit.") for cls in classes)
    return is_own and not any(_has_strange_base(cls) or "__getattr__" in vars(cls) for cls in classes)


def own_classes(owner: object) -> list[type]:
    """The class of an object and its bases, as far as they are nobody else's."""
    return _own_of(type(owner))


def _own_of(cls: type) -> list[type]:
    return [one for one in cls.__mro__ if not is_of_torch(one) and one is not object]


def _valued(node: ast.expr, frame: FrameType) -> object:
    """What layer, self.layer or self.layers[0] is in a frame; None for anything else."""
    if isinstance(node, ast.Name):
        return frame.f_locals.get(node.id)
    owner = _valued(node.value, frame) if isinstance(node, (ast.Attribute, ast.Subscript)) else None
    if isinstance(node, ast.Attribute) and isinstance(owner, nn.Module):
        return owner._modules.get(node.attr)
    at = node.slice if isinstance(node, ast.Subscript) else None
    is_at = isinstance(at, ast.Constant) and isinstance(owner, nn.ModuleList) and type(at.value) is int
    return owner[at.value] if is_at and -len(owner) <= at.value < len(owner) else None  # type: ignore[index, union-attr, arg-type]


OF_ANY = ("setattr", "vars", "__dict__", "globals", "exec", "sys.modules")
"""How what a file can set any global with ends."""


@functools.lru_cache(maxsize=64)
def told_in(text: str) -> frozenset[str]:
    """The names that a file gives anything, in whatever way, and every text in it; setattr if it may give any."""
    nodes = nodes_in(tree_from(text), ast.AST)
    names = {n.attr for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)}
    names |= {n.id for n in nodes if isinstance(n, ast.Name) and (isinstance(n.ctx, ast.Store) or n.id == "setattr")}
    names |= {n.name for n in nodes if isinstance(n, DEFINITIONS)}
    names |= {n.value for n in nodes if is_text(n)}
    return frozenset(names if nodes else {"setattr"})


@functools.lru_cache(maxsize=64)
def told_globally(text: str) -> frozenset[str]:
    """The globals that a file may set from inside: by global n, or as another module's attribute; setattr for any.

    What an object gives itself, self.n, is no global.
    """
    nodes = nodes_in(tree_from(text), ast.AST)
    if not nodes:
        return frozenset({"setattr"})
    names = {name for n in nodes if isinstance(n, ast.Global) for name in n.names}
    stored = (n for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store))
    names |= {n.attr for n in stored if not is_of_self(n)}
    is_open = any(isinstance(n, (ast.Name, ast.Attribute)) and ast.unparse(n).endswith(OF_ANY) for n in nodes)
    return frozenset(names | {"setattr"} if is_open else names)


@functools.lru_cache(maxsize=64)
def _set_in(text: str, owner: type | None) -> frozenset[str]:
    """The attributes that a file may give an object of a class: not what other classes' methods give themselves.

    setattr if it may give any. owner: None for any class of the file.
    """
    namespace = namespace_of(owner) if owner is not None else {}
    tree = tree_from(text)
    if tree is None:
        return frozenset({"setattr"})
    classes = [n for n in tree.body if isinstance(n, ast.ClassDef) and owner is not None]
    strangers = [n for n in classes if not _are_related(namespace.get(n.name), owner)]
    inside = {id(node) for one in strangers for node in ast.walk(one)}
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names |= set() if is_of_self(node) and id(node) in inside else {node.attr}
        elif isinstance(node, ast.ClassDef) and id(node) not in inside:
            names |= told_in(ast.unparse(ast.Module([n for n in node.body if not isinstance(n, Function)], [])))
            names |= {one.name for one in ast.walk(node) if isinstance(one, Function)}
        elif is_text(node):
            names.add(node.value)
        elif isinstance(node, ast.Name) and node.id == "setattr":
            names.add("setattr")
    return frozenset(names)


def _are_related(cls: object, owner: type | None) -> bool:
    """Whether one of two classes is the other's base; what is no class may be anything."""
    return owner is None or not isinstance(cls, type) or owner in cls.__mro__ or cls in owner.__mro__


def text_of(cls: type) -> str:
    """The whole file in which a class is defined."""
    return text_of_file(file_of(cls))


def _has_strange_base(cls: type) -> bool:
    """Whether a class has a base that is not known: of a package that is not installed."""
    tree = tree_of(cls)
    bases = [base for base in cls.__bases__ if base is not object]
    stood_in = any(base.__module__.startswith("scratch_transformer.kit.discover") for base in cls.__mro__)
    return stood_in or not isinstance(tree, ast.ClassDef) or len(tree.bases) > len(bases)
