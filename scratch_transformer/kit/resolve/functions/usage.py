"""How a function uses an argument that holds weights: a tensor, a dictionary of them, a list of one for each layer.

Read from the source: `linear(x, **c_fc)` wants a dictionary with linear's own parameters, `params["w1"]` a dictionary
with "w1", `for block in blocks` a list.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from scratch_transformer.kit.definitions import tree_of

MOST_DEEP = 6
CONTAINERS = ("items", "keys", "values", "get", "pop", "append")


@dataclass
class Structure:
    """kind: "leaf", "dict", "object" (with attributes), "tuple" (of what it is unpacked into) or "list" (of equals)."""

    kind: str = "leaf"
    parts: dict[str, Structure] = field(default_factory=dict)

    def at(self, kind: str, name: str) -> Structure:
        """The part of this name. What one place uses as a list and another as a dictionary stays what it was first."""
        if self.kind == "leaf":
            self.kind = kind
        return self.parts.setdefault(name, Structure())

    def merge(self, other: Structure) -> None:
        if other.kind != "leaf":
            for name, part in other.parts.items():
                self.at(other.kind, name).merge(part)

    def leaves(self, layers: int, path: str = "") -> Iterator[str]:
        """The paths of all tensors, lists having `layers` entries."""
        if self.kind == "leaf":
            yield path
        for name, part in self._named(layers):
            yield from part.leaves(layers, f"{path}.{name}" if path else name)

    def made(self, leaves: Mapping[str, Any], layers: int, path: str = "") -> Any:
        """The argument, with these tensors."""
        if self.kind == "leaf":
            return leaves[path]
        found = {n: p.made(leaves, layers, f"{path}.{n}" if path else n) for n, p in self._named(layers)}
        if self.kind == "object":
            return _Object(found)
        return found if self.kind == "dict" else list(found.values())

    def _named(self, layers: int) -> Iterator[tuple[str, Structure]]:
        if self.kind == "list":
            yield from ((str(index), next(iter(self.parts.values()))) for index in range(layers))
        else:
            yield from self.parts.items()


class _Object(dict[str, Any]):
    """Weights as attributes; what asks for items gets them too."""

    __getattr__ = dict.__getitem__


def structure_of(function: Callable[..., Any], parameter: str, depth: int = 0) -> Structure:
    """What a function makes of one of its parameters; a leaf if the source does not tell."""
    found = Structure()
    tree = tree_of(function)
    if tree is not None and depth < MOST_DEEP:
        _Reader(inspect.unwrap(function), parameter, found, depth).visit(tree)
    return found


class _Reader(ast.NodeVisitor):
    """Collects into `found` what happens to a parameter. known: names of variables -> what they hold of it."""

    def __init__(self, function: Any, parameter: str, found: Structure, depth: int) -> None:
        self.function, self.depth = function, depth
        self.known: dict[str, Structure] = {parameter: found}
        self.counters: set[str] = set()

    def at(self, node: ast.AST) -> Structure | None:
        """What an expression holds of the parameter, or None."""
        if isinstance(node, ast.Name):
            return self.known.get(node.id)
        if isinstance(node, ast.Subscript):
            return self._subscript(node)
        if isinstance(node, ast.Attribute) and not hasattr(Tensor, node.attr) and node.attr not in CONTAINERS:
            base = self.at(node.value)
            return base.at("object", node.attr) if base is not None and base.kind in ("leaf", "object") else None
        return None

    def _subscript(self, node: ast.Subscript) -> Structure | None:
        base = self.at(node.value)
        if base is None:
            return None
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
            return base.at("dict", node.slice.value)
        if isinstance(node.slice, ast.Name) and node.slice.id in self.counters:
            return base.at("list", "0")
        return None  # table[ids], W[0]: a tensor's own

    def visit_For(self, node: ast.For) -> None:
        self._loop(node.iter, node.target)
        self.generic_visit(node)

    def visit_ListComp(self, node: ast.ListComp | ast.GeneratorExp) -> None:
        for part in node.generators:
            self._loop(part.iter, part.target)
        self.generic_visit(node)

    visit_GeneratorExp = visit_ListComp

    def _loop(self, source: ast.expr, target: ast.expr) -> None:
        if isinstance(source, ast.Call) and isinstance(source.func, ast.Name):
            if source.func.id == "range" and isinstance(target, ast.Name):
                self.counters.add(target.id)
            if source.func.id == "enumerate" and isinstance(target, ast.Tuple) and source.args:
                source, target = source.args[0], target.elts[-1]
        held = self.at(source)
        if held is not None:
            self._bind(target, held.at("list", "0"))

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        for target in node.targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=False))
            for one, value in pairs:
                held = self.at(value)
                if held is not None:
                    self._bind(one, held)

    def _bind(self, target: ast.expr, held: Structure) -> None:
        if isinstance(target, ast.Name):
            self.known.setdefault(target.id, held)
        elif isinstance(target, ast.Tuple) and all(isinstance(one, ast.Name) for one in target.elts):
            for one in target.elts:
                assert isinstance(one, ast.Name)
                self.known[one.id] = held.at("tuple", one.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.at(node)
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.at(node)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """What is handed on to another of the learner's functions is used as that one does."""
        called = node.func.id if isinstance(node.func, ast.Name) else ""
        callee = self.function.__globals__.get(called)
        if inspect.isfunction(callee):
            self._handed_on(node, callee)
        self.generic_visit(node)

    def _handed_on(self, node: ast.Call, callee: Any) -> None:
        names = list(inspect.signature(callee).parameters)
        given = dict(zip(names, node.args, strict=False))
        given |= {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
        for name, value in given.items():
            held = self.at(value)
            if held is not None:
                held.merge(structure_of(callee, name, self.depth + 1))
        for keyword in node.keywords:
            held = None if keyword.arg else self.at(keyword.value)
            if held is None:
                continue
            for name, parameter in inspect.signature(callee).parameters.items():
                is_open = parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
                if name not in given and is_open:
                    held.at("dict", name).merge(structure_of(callee, name, self.depth + 1))
