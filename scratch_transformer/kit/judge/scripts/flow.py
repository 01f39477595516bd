"""Where values in a script come from, as far as its syntax tree tells: names, and what was assigned to them last."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

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

    def function_of(self, node: ast.AST) -> str:
        """The innermost function around a node; "" for the file itself."""
        around = [f for f in ast.walk(self.tree) if isinstance(f, ast.FunctionDef) and _contains(f, node)]
        return max(around, key=lambda f: f.lineno).name if around else ""

    def calls(self) -> Iterator[ast.Call]:
        """All calls, in the order of the text."""
        found = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call)]
        yield from sorted(found, key=lambda call: (call.lineno, call.col_offset))

    def assigned(self, name: str, before: ast.expr) -> ast.expr | None:
        """What a name (self.loss too) got last before a node: in its function, else anywhere in the file."""
        around = [f for f in ast.walk(self.tree) if isinstance(f, ast.FunctionDef) and _contains(f, before)]
        scopes: list[ast.AST] = [*sorted(around, key=lambda f: -f.lineno), self.tree]
        for scope in scopes:
            values = [
                node
                for node in ast.walk(scope)
                if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None and name in _targets(node)
            ]
            earlier = [node for node in values if node.lineno < before.lineno]
            chosen = earlier if scope is not self.tree or earlier else values
            if chosen:
                return max(chosen, key=lambda node: node.lineno).value
        return None

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
        """The class of the model that is called, where a script of this folder defines it."""
        made = self.source_of(called, before)
        name = ast.unparse(made.func).rpartition(".")[2] if isinstance(made, ast.Call) else ""
        return self.classes.get(name)


def parsed(text: str) -> Script | None:
    """None for what is no Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None
    return Script(tree, text, {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)})


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


def _targets(node: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [ast.unparse(target) for target in targets]


def _contains(outer: ast.AST, node: ast.AST) -> bool:
    return any(inner is node for inner in ast.walk(outer))
