"""B26: a tuple where a tensor is needed: x + nn.MultiheadAttention(…)(x, x, x), which returns its weights too."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import re
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Any

from torch import Tensor, nn

from scratch_transformer.kit.definitions import meant_by, nodes_of, tree_of
from scratch_transformer.kit.judge.frames import OTHERS, function_of, is_learners, parsed
from scratch_transformer.kit.syntax import Function, arguments_of, is_of_self, nodes_in

NOTHING = ("", "", "")
SAID = re.compile(r"'tuple'|not tuple|tuple indices")
OF_TORCH = (nn.MultiheadAttention, nn.LSTM, nn.GRU, nn.RNN)
"""What returns a tuple however it is called."""


def finding(error: BaseException) -> tuple[str, str, str]:
    """What is said of it, what returns the tuple, and the line; texts without anything if no tuple is at fault.

    Whether it is one is told by the code alone: whatever the call was given, it could not go on.
    """
    for frame, line in reversed([*traceback.walk_tb(error.__traceback__)]):
        file = frame.f_code.co_filename
        if not is_learners(frame):
            continue
        wrong = [(node, part) for node in _on(file, line) for part in _needing(node, error, frame)]
        for node, part in wrong:
            call = _call_of(part, frame)
            if call is not None and _gives_a_tuple(call, frame):
                name = ast.unparse(call.func)
                said = f"{name} returns a tuple, and a tensor is needed in {ast.unparse(node)}."
                return said, name, linecache.getline(file, line).strip()
        if not any(_is_given_a_tuple(part, frame) for _, part in wrong):
            return NOTHING
    return NOTHING


def _on(file: str, line: int) -> Iterator[ast.AST]:
    """The nodes of a line."""
    yield from (n for n in parsed(file) if getattr(n, "lineno", line + 1) <= line <= (getattr(n, "end_lineno", 0) or 0))


def _needing(node: ast.AST, error: BaseException, frame: FrameType) -> Iterator[ast.expr]:
    """The parts of an expression that must be tensors, and are not: of a sum, or by what the error says."""
    is_said = isinstance(error, (TypeError, AttributeError)) and bool(SAID.search(str(error)))
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        for side, other in ((node.left, node.right), (node.right, node.left)):
            is_tensor = isinstance(other, ast.Name) and isinstance(frame.f_locals.get(other.id), Tensor)
            if is_said or (is_tensor and isinstance(side, ast.Call)):
                yield side
    elif isinstance(node, ast.Call) and is_said:
        yield from arguments_of(node)
    elif isinstance(node, ast.Attribute) and is_said and f"no attribute '{node.attr}'" in str(error):
        yield node.value


def _is_given_a_tuple(node: ast.expr, frame: FrameType) -> bool:
    """Whether it is a parameter, for which a tuple was given: what gave it is to be looked at."""
    code = frame.f_code
    is_parameter = isinstance(node, ast.Name) and node.id in code.co_varnames[: code.co_argcount]
    return is_parameter and isinstance(frame.f_locals.get(node.id), tuple)  # type: ignore[attr-defined]


def _call_of(node: ast.expr, frame: FrameType) -> ast.Call | None:
    """The call that an expression is; of a variable the one call that is ever assigned to it.

    It may have begun with what the function was given: for layer in self.layers: x = layer(x).
    """
    if isinstance(node, ast.Call):
        return node
    function = function_of(frame)
    if not isinstance(node, ast.Name) or function is None:
        return None
    given = {one.arg for one in ast.walk(function.args) if isinstance(one, ast.arg)}
    own = {one for one in given if not isinstance(frame.f_locals.get(one), tuple)}
    stored = [n for n in nodes_in(function, ast.Name) if isinstance(n.ctx, ast.Store)]
    assigned = nodes_in(function, ast.Assign)
    values = [n.value for n in assigned if any(isinstance(t, ast.Name) and t.id == node.id for t in n.targets)]
    calls = [value for value in values if not (isinstance(value, ast.Name) and value.id in own - {node.id})]
    is_all = len(values) == sum(one.id == node.id for one in stored)
    is_loop = bool(_loops(function, calls[0])) if len(calls) == 1 else False
    if not is_all or len(calls) != 1 or (not is_loop and (node.id in given or len(values) > 1)):
        return None
    return calls[0] if isinstance(calls[0], ast.Call) else None


def _loops(function: Any, node: ast.AST) -> list[ast.For]:
    """The loops of a function in which something is."""
    return [loop for loop in nodes_in(function, ast.For) if any(one is node for one in ast.walk(loop))]


def _gives_a_tuple(call: ast.Call, frame: FrameType) -> bool:
    """Whether what is called gives one however it is called: a part or method of the class's own, or a function."""
    first, *rest = ast.unparse(call.func).removesuffix(".forward").split(".")
    owner = frame.f_locals.get("self")
    if first != "self":
        if first in frame.f_locals and not rest:
            return _is_layer_of_tuples(call, first, frame)
        thing = None if first in frame.f_locals or rest else frame.f_globals.get(first)
        return inspect.isfunction(thing) and _returns_tuples(thing)
    if len(rest) != 1 or not isinstance(owner, nn.Module):
        return False
    part = getattr(owner, rest[0], None)
    if inspect.ismethod(part):
        return inspect.isfunction(part.__func__) and _returns_tuples(part.__func__)
    if not isinstance(part, nn.Module) or not is_made_there(owner, rest[0], type(part), frame):
        return False
    return type(part) in OF_TORCH or _returns_tuples(type(part).forward)


def _is_layer_of_tuples(call: ast.Call, name: str, frame: FrameType) -> bool:
    """Whether it is one of a list of modules that the class makes, for layer in self.layers, which return tuples."""
    owner, layer = frame.f_locals.get("self"), frame.f_locals.get(name)
    function = function_of(frame)
    if function is None or not isinstance(owner, nn.Module) or not isinstance(layer, nn.Module):
        return False
    over = [one.iter for one in _loops(function, call) if isinstance(one.target, ast.Name) and one.target.id == name]
    lists = [one.attr for one in over if is_of_self(one)]
    is_list = len(over) == len(lists) == 1 and isinstance(getattr(owner, lists[0], None), nn.ModuleList)
    gives = type(layer) in OF_TORCH or _returns_tuples(type(layer).forward)
    return is_list and gives and is_made_there(owner, lists[0], type(layer), frame)


def is_made_there(owner: nn.Module, name: str, cls: type, frame: FrameType) -> bool:
    """Whether nothing else is ever assigned to self.name than what the class makes of that class."""
    pairs = [pair for n in nodes_of(type(owner), ast.Assign) for pair in _assigned(n)]
    values = [value for target, value in pairs if ast.unparse(target) == f"self.{name}"]
    return bool(values) and all(isinstance(one, ast.Call) and _makes(one, cls, frame) for one in values)


def _makes(call: ast.Call, cls: type, frame: FrameType) -> bool:
    """Whether a call makes an instance of a class, or a list of such."""
    if meant_by(ast.unparse(call.func), frame.f_globals) is not nn.ModuleList:
        return meant_by(ast.unparse(call.func), frame.f_globals) is cls
    return any(meant_by(ast.unparse(one.func), frame.f_globals) is cls for one in nodes_in(call.args, ast.Call))


def _assigned(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Targets with their values, those of a, b = c, d one by one."""
    for target in node.targets:
        of_target, of_value = getattr(target, "elts", [target]), getattr(node.value, "elts", [node.value])
        if len(of_target) == len(of_value):
            yield from zip(of_target, of_value, strict=True)
        else:
            yield from ((one, node.value) for one in of_target)


@functools.lru_cache(maxsize=256)
def _returns_tuples(function: Any) -> bool:
    """Whether every return of a learner's function gives several values."""
    if (getattr(function, "__module__", None) or "").startswith(OTHERS):
        return False
    tree, nodes = tree_of(function), nodes_of(function)
    inner = [n for one in nodes if isinstance(one, Function | ast.Lambda) and one is not tree for n in ast.walk(one)]
    own = [n for n in nodes if not any(n is other for other in inner)]
    values = [n.value for n in own if isinstance(n, ast.Return)]
    is_plain = isinstance(tree, Function) and not any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in own)
    return is_plain and bool(values) and all(isinstance(v, ast.Tuple) and len(v.elts) > 1 for v in values)
