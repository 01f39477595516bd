"""What the code of a learner's class or function names, and which definitions of the learner's own that leads to."""

from __future__ import annotations

import ast
import builtins
import dis
import functools
import inspect
import linecache
import sys
import textwrap
import tokenize
from collections.abc import Iterator, Mapping
from types import CodeType, ModuleType
from typing import Any, TypeGuard, overload

from torch import nn

from scratch_transformer.kit.arrays.classes import as_module, unwrapped
from scratch_transformer.kit.syntax import Node, nodes_in, tree_from

DEEP = 5
"""How many definitions lead from a model to its softmax: model, stack, layer, sublayer, attention, function."""
STAND_INS = "scratch_transformer.kit.discover."
TYPES = (int, float, bool, str)
"""What no parameter is meant to be by default."""


@functools.lru_cache(maxsize=1024)
def names_in(thing: Any) -> frozenset[str]:
    """The names of attributes, globals and parameters in a function, or in the methods of a class."""
    members = vars(thing).values() if isinstance(thing, type) else [thing]
    codes = [code for member in members for code in codes_of(member)]
    return frozenset(name for code in codes for name in (*code.co_names, *code.co_varnames))


def is_module_class(thing: Any) -> TypeGuard[type[nn.Module]]:
    """Whether something is a class of modules."""
    return isinstance(thing, type) and issubclass(thing, nn.Module)


def is_of_torch(cls: Any) -> bool:
    """Whether a class, or a function, is PyTorch's own."""
    return cls.__module__.startswith("torch.")


def reads(function: Any, name: str) -> bool:
    """Whether a function reads its parameter of this name anywhere; True where its code cannot be seen."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code is None or name not in code.co_varnames or name in _loaded_in(code)


@functools.lru_cache(maxsize=1024)
def _loaded_in(code: CodeType) -> frozenset[Any]:
    """What the steps of a code load, by name; since Python 3.13 two steps may be one, whose names are a pair."""
    steps = [*dis.get_instructions(code)]
    loaded = [one.argval for one in steps if one.opname.startswith("LOAD")]
    names = [name for one in loaded for name in (one if isinstance(one, tuple) else [one])]
    names += [one.argval[1] for one in steps if one.opname == "STORE_FAST_LOAD_FAST"]
    return frozenset(name for name in names if isinstance(name, str))


def text_of_file(path: object) -> str:
    """The text of a file, as its code runs now; "" of none, or of one that cannot be read."""
    return "".join(linecache.getlines(str(path or "")))


def namespace_of(thing: Any) -> dict[str, Any]:
    """The globals of the file of a class or function; hardly any where that is not known."""
    return vars(sys.modules.get(getattr(thing, "__module__", None) or "", ModuleType("none")))


def file_of(thing: Any) -> str:
    """The path of the file of a class or function; "" where that is not known."""
    return str(namespace_of(thing).get("__file__") or "")


def meant_by(path: str, namespace: Mapping[str, Any]) -> Any:
    """What a global name stands for, or a name in a global module, nn.Linear; None for one that is not there."""
    first, *rest = path.split(".")
    found = namespace.get(first)
    for name in rest:
        found = getattr(found, name, None)
    return found


@functools.lru_cache(maxsize=1024)
def source_of(definition: Any) -> str:
    """The text of a class or function. Read once: Python parses the whole file to find a class."""
    try:
        return "".join(lines_of(definition)[0])
    except (OSError, TypeError):
        return ""


@functools.lru_cache(maxsize=1024)
def lines_of(definition: Any) -> tuple[list[str], int]:
    """The lines of a class or function, and the number of the first; OSError or TypeError where there are none.

    A file may have several classes of a name, as notebooks do that write one again: Python finds the first of them.
    """
    try:
        lines, start = inspect.getsourcelines(unwrapped(definition))
    except (SyntaxError, tokenize.TokenError) as error:  # re.RegexFlag's line is of another file in 3.13
        raise OSError(f"no source of {definition!r}: {error}") from error
    file = inspect.getsourcefile(unwrapped(definition)) or ""
    own = vars(definition).values() if isinstance(definition, type) else ()
    methods = [inspect.unwrap(one) for member in own if inspect.isfunction(one := getattr(member, "__func__", member))]
    inside = [one.__code__ for one in methods if one.__qualname__ == f"{definition.__qualname__}.{one.__name__}"]
    first = min((code.co_firstlineno for code in inside if code.co_filename == file), default=start)
    if start <= first < start + len(lines):
        return lines, start
    text = linecache.getlines(file)
    for head, end in _classes("".join(text), definition.__name__):
        if head <= first <= end:
            return text[head - 1 : end], head
    return lines, start


@functools.lru_cache(maxsize=256)
def _classes(text: str, name: str) -> list[tuple[int, int]]:
    """The first and last lines of the classes of a name in a file, decorators included."""
    nodes = [node for node in nodes_in(tree_from(text), ast.ClassDef) if node.name == name]
    heads = [min([node.lineno, *(one.lineno for one in node.decorator_list)]) for node in nodes]
    return [(head, node.end_lineno or head) for head, node in zip(heads, nodes, strict=True)]


@functools.lru_cache(maxsize=1024)
def tree_of(definition: Any) -> ast.stmt | None:
    """The same as a syntax tree; None if there is no text."""
    file = tree_from(textwrap.dedent(source_of(definition)))
    return next(iter(file.body), None) if file is not None else None


def line_at(definition: Any, node: ast.expr | ast.stmt) -> str:
    """The line of the text that a node of that tree begins on, without its comment."""
    return lines_of(definition)[0][node.lineno - 1].partition("#")[0].strip()


@overload
def nodes_of(definition: Any) -> list[ast.AST]: ...
@overload
def nodes_of(definition: Any, sort: type[Node]) -> list[Node]: ...
def nodes_of(definition: Any, sort: type[ast.AST] = ast.AST) -> Any:
    """The nodes of that tree: all, or those of a sort."""
    return nodes_in(tree_of(definition), sort)


class LeftOpen:
    """In place of a default that a file makes of what is not there: there is none."""


def parameters_of(thing: Any) -> list[inspect.Parameter]:
    """The named parameters of a callable; [] for one without a signature.

    An annotation that is the name of a class is that class: learners' files are run with annotations left as text.
    What has a type by default, d_model=int, was to be annotated with it.
    """
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return []
    named = [_annotated(p) for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    named = [p.replace(default=p.empty) if isinstance(p.default, LeftOpen) else p for p in named]
    named = [p.replace(annotation=_meant(p.annotation, thing)) if isinstance(p.annotation, str) else p for p in named]
    return [*named, *(p for p in _passed_on(thing) if all(p.name != own.name for own in named))]


def as_written(thing: Any) -> list[inspect.Parameter]:
    """All parameters of a callable as they stand there; [] for one without a signature."""
    try:
        return list(inspect.signature(thing).parameters.values())
    except (TypeError, ValueError):
        return []


def parameters_called(thing: Any) -> list[inspect.Parameter]:
    """Those that a call is given, without self: of a function, or of a class's forward."""
    call = getattr(thing, "forward", None) or vars(thing).get("__call__") if isinstance(thing, type) else thing
    return [p for p in parameters_of(call) if p.name != "self"]


def _passed_on(thing: Any) -> list[inspect.Parameter]:
    """Those of the learner's class of modules to which another passes on what it is given: super().__init__(**options).

    What it sets itself, options["num_layers"] = 3, is none of them.
    """
    lineage = [one for one in getattr(thing, "__mro__", ()) if "__init__" in vars(one)]
    init = vars(lineage[0]).get("__init__") if lineage else None
    if len(lineage) < 2 or not inspect.isfunction(init) or not is_own(lineage[1]):
        return []
    is_open = any(p.kind is p.VAR_KEYWORD for p in inspect.signature(init).parameters.values())
    is_module = any(one.__module__.startswith("torch.nn") for one in lineage)
    if not is_open or not is_module or "super" not in init.__code__.co_names:
        return []
    return [p for p in parameters_of(lineage[1]) if p.name not in init.__code__.co_consts]


def _annotated(parameter: inspect.Parameter) -> inspect.Parameter:
    is_type = parameter.default in TYPES and "type" not in parameter.name and parameter.annotation is parameter.empty
    return parameter.replace(annotation=parameter.default, default=parameter.empty) if is_type else parameter


def _meant(annotation: str, thing: Any) -> Any:
    name = annotation.strip("'\"")
    found = namespace_of(thing).get(name, getattr(builtins, name, None)) if name.isidentifier() else None
    if not isinstance(found, type):
        return annotation
    return as_module(found) if is_own(found) else found


def leads_to(thing: Any) -> list[Any]:
    """The learner's classes and functions that one is made of: bases, and what is named in its code; nearest first."""
    found, edge = [thing], [thing]
    for _ in range(DEEP):
        edge = [other for one in edge for other in named_in(one)]
        edge = [other for index, other in enumerate(edge) if other not in found and other not in edge[:index]]
        found += edge
    return found[1:]


def named_in(thing: Any) -> Iterator[Any]:
    """The learner's classes and functions that the code of one names, and its bases."""
    names = sorted(names_in(thing))
    named = [getattr(sys.modules.get(thing.__module__), name, None) for name in names]
    files = [one for one in named if isinstance(one, ModuleType) and is_own(one)]
    named += [vars(file).get(name) for file in files for name in names]  # masks.causal(…)
    bases = unwrapped(thing).__bases__ if isinstance(thing, type) else ()
    for other in (*bases, *named):
        if (isinstance(other, type) or inspect.isfunction(other)) and is_own(other):
            yield as_module(other)


def is_own(thing: Any) -> bool:
    """Whether a class, a function or a module is somebody's beside torch's and Python's, of a file.

    What stands in for a package that is not installed is nobody's.
    """
    name = (thing.__name__ if isinstance(thing, ModuleType) else thing.__module__) or ""
    if name.startswith(STAND_INS):
        return False
    file = getattr(sys.modules.get(name), "__file__", None) or ""
    return name.partition(".")[0] not in (*sys.stdlib_module_names, "torch", "numpy") and "site-packages" not in file


def codes_of(member: Any) -> Iterator[CodeType]:
    """Of a function or method, and of what is written inside of it: comprehensions, functions."""
    member = getattr(member, "fget", None) or inspect.unwrap(getattr(member, "__func__", member))
    waiting = [code for code in [getattr(member, "__code__", None)] if isinstance(code, CodeType)]
    while waiting:
        code = waiting.pop()
        yield code
        waiting += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
