"""Whether a file's own calls of a class or function may leave one of its arguments out, as its default allows.

A call that hands on a parameter of the function around it leaves it out where that function's callers may.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from scratch_transformer.kit.definitions import source_of
from scratch_transformer.kit.judge import neighbours
from scratch_transformer.kit.syntax import Function, is_open, last_name, names_within, nodes_in, tree_from

MOST_DEEP = 6
"""From attention to layer, stack, side, model and the training script."""


def may_leave_out(thing: Any, parameter: str) -> bool:
    """Whether any call in its file, or else in the files beside it, leaves out a parameter that is None by default.

    Also where nobody calls it: its signature says that it may be left out.
    """
    try:
        path = inspect.getsourcefile(inspect.unwrap(thing)) or ""
    except TypeError:
        return True
    return not source_of(thing) or may_leave_out_of(path, thing.__qualname__.rpartition(".")[2], parameter)


def may_leave_out_of(path: str, name: str, parameter: str) -> bool:
    """The same of what has this name in a file."""
    try:
        own, *others = neighbours.codes(Path(path))
    except OSError:
        return True
    for texts in ([own], [own, *others]):
        found = _Calls(texts).leaves_out(name, parameter)
        if found is not None:
            return found
    return True


class _Calls:
    """Of the functions in some texts: which calls which, and with what."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.nodes = [node for text in texts for node in nodes_in(tree_from(text), ast.AST)]
        self.classes = {node.name: node for node in self.nodes if isinstance(node, ast.ClassDef)}
        self.owners = {id(f): c for c in self.classes.values() for f in c.body if isinstance(f, Function)}
        self.functions = [node for node in self.nodes if isinstance(node, Function)]

    def leaves_out(self, name: str, parameter: str, depth: int = 0) -> bool | None:
        """Whether a call of a class's forward, or a function, may leave out a parameter; None if nothing calls it."""
        definition = self._definition(name)
        if definition is None or depth > MOST_DEEP:
            return None
        found = [self._leaves(call, within, definition, parameter, depth) for call, within in self._calls(name)]
        return any(found) if found else None

    def _definition(self, name: str) -> Function | None:
        body: Any = self.classes[name].body if name in self.classes else self.functions
        wanted = ("forward", "__call__") if name in self.classes else (name,)
        return next((one for one in body if isinstance(one, Function) and one.name in wanted), None)

    def _calls(self, name: str) -> Iterator[tuple[ast.Call, Function | None]]:
        """The calls of what a class's instances are kept as, or of a function; with the function that has the call."""
        called = self._kept_as(name) if name in self.classes else {name}
        inside = {id(node): function for function in self.functions for node in ast.walk(function)}
        for node in self.nodes:
            if isinstance(node, ast.Call) and _last(node.func) in called:
                yield node, inside.get(id(node))

    def _kept_as(self, name: str) -> set[str]:
        """self.attn = Attention(…), layers = nn.ModuleList([Layer(…)]), and layer, of for layer in self.layers."""
        kept: set[str] = set()
        for node in self.nodes:
            if isinstance(node, ast.Assign) and any(
                isinstance(one, ast.Call) and _last(one.func) == name for one in ast.walk(node.value)
            ):
                kept |= {_last(target) for target in node.targets}
        for node in self.nodes:
            if isinstance(node, (ast.For, ast.comprehension)) and kept & set(map(_last, ast.walk(node.iter))):
                kept |= names_within(node.target)
        return kept - {""}

    def _leaves(
        self, call: ast.Call, within: Function | None, definition: Function, parameter: str, depth: int
    ) -> bool:
        names = [one.arg for one in definition.args.args if one.arg != "self"]
        named = {word.arg: word.value for word in call.keywords}
        place = names.index(parameter) if parameter in names else len(call.args)
        given = named.get(parameter, call.args[place] if place < len(call.args) else None)
        if given is None:
            return not is_open(call)
        return any(self._is_none(value, within, depth) for value in _ways(given))

    def _is_none(self, value: ast.expr, within: Function | None, depth: int) -> bool:
        """Whether a value may be None: that itself, or a parameter that nobody gives a value."""
        if isinstance(value, ast.Constant):
            return value.value is None
        if not isinstance(value, ast.Name) or within is None or _stores(within, value.id):
            return False
        default = defaults_of(within).get(value.id, "none of its parameters")
        if isinstance(default, str):
            return False
        is_none = isinstance(default, ast.Constant) and default.value is None
        owner = self.owners.get(id(within))
        name = owner.name if owner is not None and within.name in ("forward", "__call__") else within.name
        found = self.leaves_out(name, value.id, depth + 1)
        return is_none if found is None else found


def _last(node: ast.AST) -> str:
    """The last name of self.layers, layers[0] and layers."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return last_name(node)


def _ways(value: ast.expr) -> list[ast.expr]:
    return [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]


def _stores(function: Function, name: str) -> bool:
    """Whether a function sets a name, but where it is not None before: if mask is not None: mask = mask[:, None]."""
    kept = [node.body for node in nodes_in(function, ast.If) if ast.unparse(node.test) in (name, f"{name} is not None")]
    changed = {id(one) for body in kept for statement in body for one in ast.walk(statement)}
    stored = (one for one in nodes_in(function, ast.Name) if isinstance(one.ctx, ast.Store))
    return any(one.id == name and id(one) not in changed for one in stored)


def defaults_of(function: Function) -> dict[str, ast.expr | None]:
    """Its parameters, and their defaults."""
    names = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    without: list[ast.expr | None] = [None] * (len(names) - len(function.args.defaults))
    own = dict(zip(names, [*without, *function.args.defaults], strict=True))
    return own | dict(zip([one.arg for one in function.args.kwonlyargs], function.args.kw_defaults, strict=True))
