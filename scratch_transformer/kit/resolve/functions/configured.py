"""Rates of which an object tells all numbers, get_lr(step, config) or a trainer's self.get_lr(step), as functions that
are told each of them.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from scratch_transformer.kit.definitions import is_module_class, names_in, nodes_of, parameters_of, reads, tree_of
from scratch_transformer.kit.resolve.build.config import is_flag_by_name
from scratch_transformer.kit.resolve.functions import schedules
from scratch_transformer.kit.resolve.names.inputs import input_of
from scratch_transformer.kit.resolve.names.settings import settings_of
from scratch_transformer.kit.resolve.names.words import plain
from scratch_transformer.kit.syntax import is_stored, is_text, nodes_in

NUMBERS = {"max_lr", "min_lr", "warmup", "total", "d_model", "factor"}
"""What the rate of a step is told."""
OF_SCHEDULES = re.compile(r"cos|warm|decay|sched|anneal")
"""In the name of what says whether there is a schedule at all, use_cosine_lr, decay_lr: there is one."""
SWITCHES = ("decaylr", "lrdecay")
RATE = re.compile(r"(?<![a-z])(lr|lrate|learning_?rate)(?![a-z])")
"""In the name of a method that gives a rate: get_lr, learning_rate_at."""
NO_DEFAULT = inspect.Parameter.empty
Path = tuple[str, ...]
"""What is read of an object: ("training", "lr") of config.training.lr and of config["training"]["lr"]."""


@functools.lru_cache(maxsize=1024)
def told_one_by_one(function: Any) -> Any:
    """A function of a step and of an object whose numbers it reads, which is told each of them; else as it is."""
    parameters = parameters_of(function) if inspect.isfunction(function) else []
    if len(parameters) < 2 or not input_of(parameters[0].name, ("steps",)) or schedules.is_maker(function):
        return function
    made = (_told_each(function, parameter.name) for parameter in parameters[1:])
    return next((one for one in made if one is not None), function)


def methods_of(cls: Any) -> Iterator[tuple[str, Any]]:
    """The methods of a class that give the rate of a step by numbers which the object has; a schedule is one itself.

    And those that make a schedule of what they are told, and have nothing of the object.
    """
    if not isinstance(cls, type) or is_module_class(cls) or (schedules.is_schedule(cls) and not _trains(cls)):
        return
    for name, member in vars(cls).items():
        if not inspect.isfunction(member):
            continue
        is_maker = schedules.is_maker(member)
        made = _without_self(member) if is_maker else _told_each(member, "self") if RATE.search(name) else None
        if made is not None:
            yield name, made


def _trains(cls: type) -> bool:
    """Whether a class takes gradients; one that hands zero_grad on to its optimizer leaves that to what calls it."""
    return bool({"backward", "zero_grad"} & names_in(cls) - ({"zero_grad"} & vars(cls).keys()))


def _without_self(method: Any) -> Any:
    """A method that reads nothing of its object as a function; None of others."""
    first, *others = [*inspect.signature(method).parameters.values()]
    if first.name != "self" or reads(method, "self"):
        return None

    @functools.wraps(method)
    def function(*args: Any, **named: Any) -> Any:
        return method(None, *args, **named)

    function.__signature__ = inspect.Signature(others)  # type: ignore[attr-defined]
    return function


def _told_each(function: Any, owner: str) -> Any:
    """A function that is told what it reads of an argument, `owner`; None if that is anything but a rate's numbers."""
    read = _read(function, owner)
    given = {p.name: p for p in parameters_of(function) if p.name != owner}
    counted = [path for path in read or () if not given and input_of(path[-1], ("steps",))]
    numbers = [path for path in read or () if path not in counted and _is_number(path[-1])]
    known = {setting for path in numbers for setting in settings_of(path[-1])[:1]}
    steps = [path[-1] for path in counted] or [*given][:1]
    if read is None or len(known) < 2 or len(steps) != 1 or not input_of(steps[0], ("steps",)):
        return None
    others = {path: _usual(path[-1], read[path]) for path in read if path not in (*counted, *numbers)}
    if NO_DEFAULT in others.values():
        return None
    told = dict.fromkeys(path[-1] for path in (*counted, *numbers) if path[-1] not in given)

    @functools.wraps(function)
    def of_each(**values: Any) -> Any:
        own = {path: values[path[-1]] for path in (*counted, *numbers)}
        besides = {name: value for name, value in values.items() if name in given}
        return function(**{owner: _object({**others, **own})}, **besides)

    taken = [p.replace(kind=p.KEYWORD_ONLY) for p in given.values()]
    taken += [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in told]
    of_each.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]
    return of_each


def _is_number(name: str) -> bool:
    is_one = NUMBERS.intersection(settings_of(name)[:1]) or schedules.SHARE.search(name)
    return bool(is_one) and not _is_switch(name)


def _is_switch(name: str) -> bool:
    return is_flag_by_name(name) or plain(name) in SWITCHES


def _usual(name: str, default: Any) -> Any:
    """What is no number of a rate's: whether something is done, or what it is where nobody tells it."""
    return OF_SCHEDULES.search(plain(name)) is not None if _is_switch(name) else default


def _object(values: Mapping[Path, Any]) -> _Object:
    """What has these values, by attributes and by keys."""
    heads = dict.fromkeys(path[0] for path in values)
    within = {head: {path[1:]: value for path, value in values.items() if path[0] == head} for head in heads}
    return _Object({head: inner[()] if () in inner else _object(inner) for head, inner in within.items()})


class _Object(dict[str, Any]):
    __getattr__ = dict.__getitem__


# ---- What a function reads of an argument ----


def _read(function: Any, owner: str) -> dict[Path, Any] | None:
    """What a function reads of an argument, each with its default; None if it does anything else with it."""
    tree = tree_of(function)
    body = tree.body if isinstance(tree, ast.FunctionDef) else []
    kept = Counter(node.id for node in nodes_in(body, ast.Name) if is_stored(node))
    holders = [one[0] for node in nodes_of(function) if (one := _looked_up(node)) is not None]
    looked_into = {holder.id for holder in holders if isinstance(holder, ast.Name)}
    parts: dict[str, Path] = {owner: ()}
    for node in nodes_in(body, ast.Assign):  # cfg = self.config, which is read in turn
        name, path = ast.unparse(node.targets[0]), _path(node.value, parts)
        if path is not None and name in looked_into and kept[name] == 1:
            parts[name] = path[0]
    found: dict[Path, Any] = {}
    return found if owner not in kept and all(_notes(node, parts, found) for node in body) else None


def _notes(node: ast.AST, parts: Mapping[str, Path], found: dict[Path, Any]) -> bool:
    """Notes what is read in a node; whether nothing else is done there with the object or a part of it.

    parts: by their names, which are given to them.
    """
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in parts:
        return True
    path = _path(node, parts)
    if path is None:
        return all(_notes(inner, parts, found) for inner in ast.iter_child_nodes(node))
    found[path[0]] = path[1]
    return path[0] not in parts.values()


def _path(node: ast.AST, parts: Mapping[str, Path]) -> tuple[Path, Any] | None:
    """What an expression reads of an object, or of a part of it that has a name, and the default."""
    if isinstance(node, ast.Name):
        return (parts[node.id], NO_DEFAULT) if node.id in parts else None
    found = _looked_up(node)
    before = _path(found[0], parts) if found is not None else None
    return ((*before[0], found[1]), found[2]) if found is not None and before is not None else None


def _looked_up(node: ast.AST) -> tuple[ast.expr, str, Any] | None:
    """Of config.lr, config["lr"], config.get("lr", 1) and getattr(config, "lr", 1): config, "lr" and the default."""
    if isinstance(node, ast.Attribute):
        return node.value, node.attr, NO_DEFAULT
    if isinstance(node, ast.Subscript) and is_text(node.slice):
        return node.value, node.slice.value, NO_DEFAULT
    if not isinstance(node, ast.Call):
        return None
    is_get = isinstance(node.func, ast.Attribute) and node.func.attr == "get"
    given = [node.func.value, *node.args] if is_get and isinstance(node.func, ast.Attribute) else node.args
    if not (is_get or ast.unparse(node.func) == "getattr") or len(given) < 2 or not is_text(given[1]):
        return None
    default = given[2] if len(given) > 2 else None
    return given[0], given[1].value, default.value if isinstance(default, ast.Constant) else NO_DEFAULT
