"""Where values in a script come from, as far as its syntax tree tells: names, and what was assigned to them last."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from scratch_transformer.kit.syntax import DEFINITIONS, FUNCTIONS, inside, last_name, nodes_in

LAYOUT = (
    *("view", "reshape", "contiguous", "flatten", "transpose", "permute", "squeeze", "unsqueeze", "t", "T"),
    *("to", "cuda", "cpu", "long", "float", "type", "type_as", "clone", "detach"),
)
"""Methods that leave values what they are."""
MODEL = re.compile(r"model|transformer|net$|gpt|seq2seq|lm$", re.IGNORECASE)
STEPS = 8
"""Names that are followed back at most."""


@dataclass(frozen=True)
class Script:
    """classes: by name, of this file and of those beside it."""

    tree: ast.Module
    text: str
    classes: dict[str, ast.ClassDef]

    @functools.cached_property
    def _parents(self) -> dict[ast.AST, ast.AST]:
        nodes = (node for root in (*self.classes.values(), self.tree) for node in ast.walk(root))
        return {child: node for node in nodes for child in ast.iter_child_nodes(node)}

    @functools.cached_property
    def texts(self) -> list[str]:
        """Of the file, and of the classes that it knows, of others too."""
        return [self.text, *map(ast.unparse, self.classes.values())]

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """All that a node is in, the innermost first."""
        while (parent := self._parents.get(node)) is not None:
            yield (node := parent)

    def function_of(self, node: ast.AST) -> str:
        """The innermost function around a node, or the class whose constructor that is; "" for the file itself."""
        around = [one.name for one in self.around(node) if isinstance(one, (ast.FunctionDef, ast.ClassDef))]
        return next((name for name in around if name != "__init__"), "")

    def loops_around(self, node: ast.AST) -> tuple[list[ast.For | ast.While], ast.AST]:
        """The loops around a node, the innermost first, as far as its function goes; and that loop, or the function."""
        loops: list[ast.For | ast.While] = []
        for one in self.around(node):
            if isinstance(one, (ast.For, ast.While)):
                loops.append(one)
            if isinstance(one, DEFINITIONS):
                return loops, loops[0] if loops else one
        return loops, loops[0] if loops else self.tree

    @functools.cached_property
    def functions(self) -> dict[str, list[ast.FunctionDef]]:
        """Those of the file, methods too, by name."""
        found: dict[str, list[ast.FunctionDef]] = {}
        for node in nodes_in(self.tree, ast.FunctionDef):
            found.setdefault(node.name, []).append(node)
        return found

    @functools.cached_property
    def calls(self) -> list[ast.Call]:
        """All calls, in the order of the text."""
        return sorted(nodes_in(self.tree, ast.Call), key=lambda call: (call.lineno, call.col_offset))

    def assigned(self, name: str, before: ast.expr) -> ast.expr | None:
        """What a name (self.loss too) got last before a node, in the scope that it belongs to.

        A parameter got what its function is first called with; where that is not in this file, the object of its name.
        """
        given = self._given(name, before)
        if not isinstance(given, ast.FunctionDef):
            return given
        if (call := next((call for call in self.calls if self._is_of(call.func, given)), None)) is not None:
            return argument(name, given, call)
        made = _last(_bound(name, inside(self.tree)), None)
        return made if made is not None and _called(without_layout(made))[:1].isupper() else None

    def is_left_open(self, name: str, before: ast.expr) -> bool:
        """Whether a name is a parameter that nothing in this file is given for."""
        return isinstance(self._given(name, before), ast.FunctionDef) and self.assigned(name, before) is None

    def _given(self, name: str, before: ast.expr) -> ast.expr | ast.FunctionDef | None:
        """What a name got, or the function whose parameter it is; an attribute of self, anywhere in its class."""
        for scope in self.around(before):
            if isinstance(scope, ast.ClassDef) and name.startswith("self."):
                bases = (self.classes.get(ast.unparse(base).rpartition(".")[2]) for base in scope.bases)
                bound = (_bound(name, ast.walk(one)) for one in (scope, *bases) if one is not None)
                return _last(next(filter(None, bound), []), before)
            if isinstance(scope, FUNCTIONS):
                bound_here = _bound(name, inside(scope))
                if any(line < before.lineno for line, _ in bound_here):
                    return _last(bound_here, before)
                if name in _parameters(scope):
                    return scope if isinstance(scope, ast.FunctionDef) else None
                if bound_here and name.isidentifier():
                    return None
        return _last(_bound(name, inside(self.tree)), before)

    def _is_of(self, called: ast.expr, function: ast.FunctionDef) -> bool:
        """Whether a call is of this function: by its name, or as a method of self or of an object of its class."""
        cls = self._parents.get(function)
        if not isinstance(cls, ast.ClassDef) or function.name == "__init__":
            wanted = cls.name if isinstance(cls, ast.ClassDef) else function.name
            return isinstance(called, ast.Name) and called.id == wanted
        if not isinstance(called, ast.Attribute) or called.attr != function.name:
            return False
        of = self._given(ast.unparse(called.value), called)
        is_own = ast.unparse(called.value) == "self" and cls in self.around(called)
        return is_own or (isinstance(of, ast.expr) and _called(of) == cls.name)

    def source_of(self, value: ast.expr, before: ast.expr) -> ast.expr:
        """The expression behind a value: names followed back, changes of layout taken off."""
        for _ in range(STEPS):
            value = without_layout(value)
            if not isinstance(value, (ast.Name, ast.Attribute)):
                break
            origin = self.assigned(ast.unparse(value), before)
            if origin is None:
                break
            before, value = origin, origin
        return value

    def class_of(self, called: ast.expr, before: ast.expr) -> ast.ClassDef | None:
        """The class of the model that is called, where a script of this folder defines it; of self, that around it."""
        if ast.unparse(called) in ("self", "self.forward"):
            return next((one for one in self.around(before) if isinstance(one, ast.ClassDef)), None)
        made = self.source_of(called, before)
        name = ast.unparse(made.func).rpartition(".")[2] if isinstance(made, ast.Call) else ""
        return self.classes.get(name)


def parsed(text: str) -> Script | None:
    """None for what is no Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None
    for call in nodes_in(tree, ast.Call):
        named = {word.arg: word for word in call.keywords}
        if not call.args and {"input", "target"} <= named.keys():  # of a loss, as torch calls them
            call.args = [named["input"].value, named["target"].value]
            call.keywords = [word for word in call.keywords if word.arg not in ("input", "target")]
    return Script(tree, text, {node.name: node for node in nodes_in(tree, ast.ClassDef)})


def without_layout(value: ast.expr) -> ast.expr:
    """x.contiguous().view(-1) is x."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in LAYOUT:
        value = value.func.value
    return value


def sliced(value: ast.expr) -> tuple[str, str]:
    """A name, and how it is cut: tgt[:, :-1] -> ("tgt", ":, :-1"); ("", "") for what is neither."""
    value = without_layout(value)
    if isinstance(value, ast.Subscript) and isinstance(value.value, (ast.Name, ast.Attribute)):
        return ast.unparse(value.value), ast.unparse(value.slice)
    return (ast.unparse(value), "") if isinstance(value, (ast.Name, ast.Attribute)) else ("", "")


def _called(value: ast.expr) -> str:
    """The last name of what is called: nn.CrossEntropyLoss() -> "CrossEntropyLoss"; "" for what is no call."""
    return last_name(value.func) if isinstance(value, ast.Call) else ""


def _bound(name: str, nodes: Iterable[ast.AST]) -> list[tuple[int, ast.expr | None]]:
    """Where a name gets a value: the line, and what; None for one not written alone (a, b = f(); for a in …)."""
    found: list[tuple[int, ast.expr | None]] = []
    known: set[ast.AST] = set()
    for node in (nodes := [*nodes]):
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            for target, value in _pairs(node):
                known.add(target)
                if value is not None and ast.unparse(target) == name:
                    found.append((node.end_lineno or node.lineno, value))
        elif isinstance(node, ast.AugAssign):
            known.add(node.target)
    for node in nodes:
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store) and node not in known:
            found += [(node.lineno, None)] if ast.unparse(node) == name else []
    return found


def _pairs(node: ast.Assign | ast.AnnAssign) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """What is assigned to, and what each gets: x, y = x.to(device), y.to(device) too."""
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            if len(target.elts) == len(node.value.elts):
                yield from zip(target.elts, node.value.elts, strict=True)
        else:
            yield target, node.value


def _last(bound: list[tuple[int, ast.expr | None]], before: ast.expr | None) -> ast.expr | None:
    """The last value before a node; the last of all where there is none, as in a method above the constructor."""
    earlier = [one for one in bound if before is not None and one[0] < before.lineno] or bound
    return max(earlier, key=lambda one: one[0])[1] if earlier else None


def _parameters(function: ast.AST) -> list[str]:
    told = getattr(function, "args", ast.arguments([], [], None, [], [], None, []))
    return [one.arg for one in (*told.posonlyargs, *told.args, *told.kwonlyargs)]


def argument(name: str, function: ast.FunctionDef, call: ast.Call) -> ast.expr | None:
    """What a call gives for a parameter; None where it is left out, or among others in a list."""
    names = [one for one in _parameters(function) if one not in ("self", "cls")]
    if any(isinstance(value, ast.Starred) for value in call.args):
        return None
    pairs = [*zip(names, call.args, strict=False), *((word.arg, word.value) for word in call.keywords)]
    return next((value for one, value in pairs if one == name), None)
