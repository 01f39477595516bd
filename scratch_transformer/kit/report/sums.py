"""Where in a layer's forward the sum of a residual connection is dropped out, or thrown away."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import Any

from scratch_transformer.kit.definitions import nodes_of, source_of, tree_of
from scratch_transformer.kit.syntax import assignments, method_of, nodes_in

NORM, DROPOUT = r"(?i)norm|\bln\w*$", r"(?i)drop"
"""What norms and dropouts are called, of classes and of attributes."""
CONNECTION = r"(?i)self\.\w*sub_?layer|residual|skip|connection"
"""What residual connections are called, that are given x and what is to be added to it."""


def made_of(definition: Any, called: str) -> set[str]:
    """The attributes of a class that get a norm, or a dropout, whatever they are called: self.n1 = nn.LayerNorm(…)."""
    pairs = assignments(nodes_of(definition))
    calls = [(target, value.func) for target, value in pairs if isinstance(value, ast.Call)]
    return {ast.unparse(target) for target, function in calls if re.search(called, ast.unparse(function))}


def layers_first(definitions: Iterable[Any]) -> list[Any]:
    """What has norms and attention or sublayers, before the rest; of that nothing that looks up words.

    Of what has both, what looks up no words comes first.
    """
    texts = {definition: source_of(definition).lower() for definition in definitions}
    layers = [one for one, text in texts.items() if "norm" in text and re.search("att|sublayer|mha", text)]
    rest = [one for one, text in texts.items() if one not in layers and "embedding(" not in text]
    return [*sorted(layers, key=lambda one: "embedding(" in texts[one]), *rest]


def dropped(definition: Any) -> int | None:
    """At which line of a class, from 0, its forward drops out of a sum, or of the norm of one."""
    forward = _Forward(definition)
    for statement in forward.statements():
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and forward.is_called(node, DROPOUT) and forward.is_sum(_first(node)):
                return node.lineno - 1
    return None


def dropped_there(definition: Any) -> int | None:
    """The first line of either, of a sum or of what is to be added to one."""
    lines = (dropped(definition), residual_dropped(definition))
    return min((line for line in lines if line is not None), default=None)


def residual_dropped(definition: Any) -> int | None:
    """At which line of a class, from 0, its forward adds a sublayer's output to what dropout leaves of x itself."""
    forward = _Forward(definition)
    for statement in forward.statements():
        for node in ast.walk(statement):
            sides = (node.left, node.right) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) else ()
            calls = [side for side in sides if isinstance(side, ast.Call) and forward.is_called(side, DROPOUT)]
            if len(calls) == 1 and forward.is_residual(_first(calls[0])):
                return calls[0].lineno - 1
    return None


def thrown_away(definition: Any) -> int | None:
    """At which line of a class, from 0, its forward gives a sum a name that is not read any more."""
    forward = _Forward(definition)
    statements = [*forward.statements()]
    for at, statement in enumerate(statements):
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
            continue
        name, around = statement.targets[0].id, forward.loops_around(statement)
        is_read = any(_first_use(loop, name) for loop in around)
        later = [use for other in statements[at + 1 :] if (use := _first_use(other, name)) is not None]
        if statement in forward.sums and not is_read and not (later and later[0]):
            return statement.lineno - 1
    return None


def norm_thrown_away(definition: Any) -> int | None:
    """At which line of a class, from 0, its forward calls a norm and keeps nothing of what it gives."""
    forward = _Forward(definition)
    for statement in forward.statements():
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and forward.is_called(call, NORM):
            return statement.lineno - 1
    return None


def undropped(definition: Any) -> int | None:
    """At which line of a class, from 0, its forward makes the first sum of a residual connection without dropout."""
    forward = _Forward(definition)
    for statement in [*forward.statements()]:  # then all sums are known
        calls = nodes_in(statement, ast.Call)
        if forward.adds(statement) and not any(forward.is_called(call, DROPOUT) for call in calls):
            return statement.lineno - 1
    return None


def undropped_of(definition: Any, called: str) -> int | None:
    """At which line of a class, from 0, its forward adds what calls of such a name give, at once or later."""
    forward, given = _Forward(definition), set[str]()
    for statement in [*forward.statements()]:  # then all sums are known
        names = nodes_in(statement, ast.Name)
        calls = nodes_in(statement, ast.Call)
        gives = any(re.search(called, f"{ast.unparse(c.func)}(") and not forward.is_no_sublayer(c) for c in calls)
        if forward.adds(statement) and (
            gives or any(name.id in given for name in names if isinstance(name.ctx, ast.Load))
        ):
            return statement.lineno - 1
        given |= {name.id for name in names if gives and isinstance(name.ctx, ast.Store)}
    return None


def made_in_vain(definition: Any) -> int | None:
    """At which line of a class, from 0, it makes a dropout that nothing in it applies."""
    nodes = nodes_of(definition)
    read = {ast.unparse(one) for one in nodes if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Load)}
    left = made_of(definition, r"\bDropout$") - read
    lines = [value.lineno for target, value in assignments(nodes) if ast.unparse(target) in left]
    return min(lines) - 1 if lines else None


class _Forward:
    """The forward of a class, read from its first line to its last."""

    def __init__(self, definition: Any) -> None:
        own = method_of(tree_of(definition), "forward")
        self.body = own.body if own is not None else []
        taken = [arg.arg for arg in own.args.args[1:]] if own is not None else []
        self.given, self.besides = {*taken[:1]}, {*taken[1:]}
        self.names = {called: made_of(definition, called) for called in (NORM, DROPOUT, CONNECTION)}
        self.known: dict[str, bool] = {}
        self.sums: set[ast.stmt] = set()

    def statements(self, body: Iterable[ast.stmt] | None = None) -> Iterator[ast.stmt]:
        """All that compute something, in the order of the text; what each makes is known when the next one comes."""
        for statement in self.body if body is None else body:
            inner = [*getattr(statement, "body", []), *getattr(statement, "orelse", [])]
            if inner:
                yield from self.statements(inner)
                continue
            yield statement
            for target, value in assignments([statement]):
                self._learn(ast.unparse(target), self.is_sum(value), statement)
            if isinstance(statement, ast.AugAssign):
                self._learn(ast.unparse(statement.target), isinstance(statement.op, ast.Add), statement)

    def _learn(self, name: str, is_sum: bool, statement: ast.stmt) -> None:
        self.known[name] = is_sum
        self.sums |= {statement} if is_sum else set()

    def adds(self, statement: ast.stmt) -> bool:
        """Whether a statement makes a sum, or returns one."""
        return statement in self.sums or (isinstance(statement, ast.Return) and self.is_sum(statement.value))

    def is_called(self, call: ast.Call, word: str) -> bool:
        """Whether a call is of a norm, of dropout, of a residual connection."""
        function = ast.unparse(call.func)
        return function in self.names[word] or re.search(word, function) is not None

    def is_no_sublayer(self, call: ast.Call) -> bool:
        """self.attn_norm(x), self.attn_drop(x)."""
        return self.is_called(call, NORM) or self.is_called(call, DROPOUT)

    def is_sum(self, value: ast.expr | None) -> bool:
        """x + f(x), or what a residual connection gives; a name of such, and the norm or what dropout leaves of it."""
        if (
            isinstance(value, ast.Call)
            and self.is_called(value, CONNECTION)
            and any(map(self.is_added, value.args[1:]))
        ):
            return True
        if isinstance(value, ast.Call) and not _adds(value):
            return self.is_no_sublayer(value) and self.is_sum(_first(value))
        is_added = (isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add)) or isinstance(value, ast.Call)
        return is_added or (isinstance(value, ast.Name) and self.known.get(value.id, False))

    def is_added(self, value: ast.expr) -> bool:
        """Whether a residual connection, and no sublayer of such a name, is given this besides x: what it adds.

        self.sublayer(x, mask) and self.sublayer(x, x, x) have masks, memory or x again.
        """
        is_other = isinstance(value, ast.Name) and value.id not in {*self.given, *self.besides}
        is_made = isinstance(value, (ast.Call, ast.Lambda, ast.Attribute)) or is_other
        return is_made and "mask" not in ast.unparse(getattr(value, "func", value))

    def is_residual(self, value: ast.expr | None) -> bool:
        """Whether it is what forward was given, or a sum that an earlier sublayer ended in."""
        name = value.id if isinstance(value, ast.Name) else ""
        return self.known.get(name, name in self.given)

    def loops_around(self, statement: ast.stmt) -> list[ast.AST]:
        loops = [node for one in self.body for node in ast.walk(one) if isinstance(node, (ast.For, ast.While))]
        return [loop for loop in loops if any(node is statement for node in ast.walk(loop))]


def _adds(call: ast.Call) -> bool:
    """Whether a call is torch's sum of two: torch.add(x, y), x.add(y), x.add_(y); no method self.add(x, y)."""
    owner, _, name = ast.unparse(call.func).rpartition(".")
    return name in ("add", "add_") and owner != "self" and len(call.args) == (2 if owner == "torch" else 1)


def _first(call: ast.Call) -> ast.expr | None:
    return call.args[0] if call.args else None


def _first_use(node: ast.AST, name: str) -> bool | None:
    """Whether a node reads a name (before it sets it); None if it does neither."""
    uses = [one.ctx for one in nodes_in(node, ast.Name) if one.id == name]
    return any(isinstance(use, ast.Load) for use in uses) if uses else None
