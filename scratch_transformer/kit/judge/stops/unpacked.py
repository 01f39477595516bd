"""B26: not as many values as are asked for: output, weights = self.attention(x), which returns one, or three."""

from __future__ import annotations

import ast
import inspect
import re
from types import FrameType

from torch import Tensor, nn

from scratch_transformer.kit.definitions import nodes_of
from scratch_transformer.kit.judge.frames import nodes_at
from scratch_transformer.kit.judge.stops.tuples import OF_TORCH, OTHERS, is_made_there
from scratch_transformer.kit.syntax import Function, is_stored

NOTHING = ("", "")
SAID = re.compile(r"(too many|not enough) values to unpack \(expected (\d+)")
SEVERAL = {"chunk", "split", "unbind", "tensor_split", "max", "min", "sort", "topk", "aminmax", "unsafe_split", "mode"}
"""Methods of tensors that return several."""
DEEP = 4
"""Parts within parts that are looked into."""


def no_pair(error: BaseException, frame: FrameType) -> tuple[str, str]:
    """What returns one tensor, which is taken apart along its first dimension, or more or fewer values, in any case."""
    found = SAID.match(str(error)) if type(error) is ValueError else None
    owner = frame.f_locals.get("self")
    if found is None or not isinstance(owner, nn.Module):
        return NOTHING
    for node in nodes_at(error, frame, ast.Assign):
        numbers = [len(t.elts) for t in node.targets if isinstance(t, (ast.Tuple, ast.List))]
        part = _part_of(node.value, owner)
        if int(found[2]) not in numbers or part is None:
            continue
        name = ast.unparse(node.value.func)
        if not is_made_there(owner, name.split(".")[1], type(part), frame):
            continue
        if (several := _number(part)) not in (0, int(found[2])):
            return f"{name} returns {several} values, and {found[2]} are asked for.", name
        if _is_single(part):
            said = f"{name} returns one tensor, and {found[2]} values are asked for"
            return f"{said}: it is taken apart sample by sample.", name
    return NOTHING


def _number(part: nn.Module) -> int:
    """How many values a learner's part returns, more than one, by what is written in its forward; else 0."""
    forward = type(part).forward
    if not inspect.isfunction(forward) or (forward.__module__ or "").startswith(OTHERS):
        return 0
    nodes = nodes_of(forward)
    if any(isinstance(n, (Function, ast.Lambda)) for n in nodes[1:]):
        return 0
    values = [n.value for n in nodes if isinstance(n, ast.Return)]
    numbers = {len(v.elts) if isinstance(v, ast.Tuple) and not _has_star(v) else 0 for v in values}
    return max(numbers) if len(numbers) == 1 and max(numbers) > 1 else 0


def _has_star(values: ast.Tuple) -> bool:
    return any(isinstance(one, ast.Starred) for one in values.elts)


def _is_single(part: nn.Module, depth: int = DEEP) -> bool:
    """Whether a part returns one tensor, by what is written in its forward."""
    cls = type(part)
    if cls.__module__.startswith("torch.nn."):
        return not isinstance(part, (*OF_TORCH, nn.Sequential, nn.ModuleList, nn.ModuleDict)) and cls is not nn.Module
    forward = cls.forward
    if depth == 0 or not inspect.isfunction(forward) or (forward.__module__ or "").startswith(OTHERS):
        return False
    nodes = nodes_of(forward)
    has_others = any(isinstance(n, (Function, ast.Lambda)) for n in nodes[1:])
    returned = [n.value for n in nodes if isinstance(n, ast.Return)]
    return not has_others and bool(returned) and all(_is_tensor(one, part, nodes, depth) for one in returned)


def _is_tensor(node: ast.expr | None, part: nn.Module, nodes: list[ast.AST], depth: int) -> bool:
    """A sum or product; what a part gives that returns one; a tensor's method; a name that is given such alone."""
    if isinstance(node, ast.Name):
        values = _given(node.id, nodes) if depth > 0 else []
        return bool(values) and all(_is_tensor(value, part, nodes, depth - 1) for value in values)
    if isinstance(node, ast.Subscript):
        made = _part_of(node.value, part)
        is_first = isinstance(node.slice, ast.Constant) and node.slice.value == 0
        return (isinstance(made, nn.MultiheadAttention) and is_first) or _is_tensor(node.value, part, nodes, depth)
    if not isinstance(node, ast.Call):
        return isinstance(node, ast.BinOp)
    made, method = _part_of(node, part), node.func.attr if isinstance(node.func, ast.Attribute) else ""
    return _is_single(made, depth - 1) if made is not None else hasattr(Tensor, method) and method not in SEVERAL


def _part_of(node: ast.expr, owner: nn.Module) -> nn.Module | None:
    """The part of a module that a call is of: self.attention(…)."""
    name = ast.unparse(node.func).removesuffix(".forward") if isinstance(node, ast.Call) else ""
    first, *rest = name.split(".")
    made = getattr(owner, rest[0], None) if first == "self" and len(rest) == 1 else None
    return made if isinstance(made, nn.Module) else None


def _given(name: str, nodes: list[ast.AST]) -> list[ast.expr]:
    """All that a name is assigned, x = f(x), x, weights = f(x), x += y; [] where it is given more than that."""
    found: list[ast.expr] = []
    for node in nodes:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            parts = target.elts if isinstance(target, ast.Tuple) else []
            found += [node.value] if ast.unparse(target) == name else []
            places = [place for place, one in enumerate(parts) if ast.unparse(one) == name]
            found += [ast.Subscript(node.value, ast.Constant(place), ast.Load()) for place in places]
        elif isinstance(node, ast.AugAssign) and ast.unparse(node.target) == name:
            found.append(ast.BinOp(ast.Name(name, ast.Load()), node.op, node.value))
    stored = [n for n in nodes if is_stored(n, name)]
    return found if len(found) == len(stored) else []
