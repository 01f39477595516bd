"""Where a number is settled: of layers, whatever a stack is told; of what a norm adds to the variance."""

from __future__ import annotations

import ast
import re
from typing import Any

from scratch_transformer.kit.definitions import namespace_of, nodes_of, tree_of
from scratch_transformer.kit.syntax import arguments_of, is_stored, nodes_in

SMALL = re.compile(r"\b(Linear|\w*Norm|Dropout|Embedding|Parameter|ReLU|GELU)\(")
"""Parts of torch's that are no layers: four projections are made in such a way."""


def of_layers(definition: Any) -> int | None:
    """At which line of a class, from 0, it does: the loop that returns, range(6), or a list without a loop."""
    methods = {one.name: one for one in getattr(tree_of(definition), "body", []) if isinstance(one, ast.FunctionDef)}
    for loop in nodes_in(methods.values(), ast.For):
        if any(isinstance(statement, ast.Return) for statement in loop.body):
            return loop.lineno - 1
    nodes = [*ast.walk(methods["__init__"])] if "__init__" in methods else []
    local = {node.arg for node in nodes if isinstance(node, ast.arg)}
    local |= {node.id for node in nodes if is_stored(node)}
    fixed = (node for node in nodes if _is_repeated(node, local) or _is_written_out(node))
    return next((int(vars(node)["lineno"]) - 1 for node in fixed if not SMALL.search(ast.unparse(node))), None)


def _is_repeated(node: ast.AST, local: set[str]) -> bool:
    """[Layer(…) for _ in range(6)], or a loop; of a number that is written in, or the file's."""
    loops = node.generators if isinstance(node, (ast.ListComp, ast.GeneratorExp)) else [node]
    calls = [loop.iter for loop in loops if isinstance(loop, (ast.comprehension, ast.For))]
    numbers = [c.args[-1] for c in calls if isinstance(c, ast.Call) and ast.unparse(c.func) == "range" and c.args]
    return any(isinstance(n, ast.Constant) or (isinstance(n, ast.Name) and n.id not in local) for n in numbers)


def _is_written_out(node: ast.AST) -> bool:
    """nn.ModuleList([Layer(…)]): nothing but calls, one after the other."""
    is_list = isinstance(node, ast.Call) and ast.unparse(node.func).endswith("ModuleList") and len(node.args) == 1
    parts = getattr(node.args[0], "elts", []) if is_list else []  # type: ignore[attr-defined]
    return bool(parts) and all(isinstance(part, ast.Call) for part in parts)


RESIDUAL = re.compile(r"(?i)sublayer|resid|connect|add_?(and_?)?norm")


def of_dropout(definition: Any) -> int | None:
    """At which line of a class, from 0, what adds is told to drop nothing: SublayerConnection(width, dropout=0)."""
    for call in nodes_of(definition, ast.Call):
        told = [word.value for word in call.keywords if "drop" in (word.arg or "")]
        none = any(isinstance(value, ast.Constant) and value.value == 0 for value in told)
        if none and RESIDUAL.search(ast.unparse(call.func)):
            return call.lineno - 1
    return None


def of_eps(definition: Any, eps: str) -> int | None:
    """At which line of a class, from 0, a norm is told this eps: LayerNorm(d_model, 1e-6), or by a global's name."""
    names = namespace_of(definition)
    for call in nodes_of(definition, ast.Call):
        given = arguments_of(call)
        values = [names.get(one.id) if isinstance(one, ast.Name) else getattr(one, "value", None) for one in given]
        if re.search("(?i)norm", ast.unparse(call.func)) and any(_is(value, eps) for value in values):
            return call.lineno - 1
    return None


def _is(value: Any, number: str) -> bool:
    return isinstance(value, float) and f"{value:g}" == f"{float(number):g}"
