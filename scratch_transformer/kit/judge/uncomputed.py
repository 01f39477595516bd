"""What a module that cannot be called shows: layers in a list (B10), parts made in forward (B21); a factory's (B30)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from scratch_transformer.kit.definitions import (
    is_module_class,
    is_of_torch,
    is_own,
    lines_of,
    meant_by,
    namespace_of,
    nodes_of,
    source_of,
    tree_of,
)
from scratch_transformer.kit.judge.frames import DONE_AT
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.blocks import DOES_MOVE, MOVED, MOVES
from scratch_transformer.kit.mistakes.construction import OF_NAMES
from scratch_transformer.kit.syntax import assignments, nodes_in

OF_TORCH = (nn.Linear, nn.Embedding, nn.LayerNorm, nn.RMSNorm, nn.MultiheadAttention, nn.Conv1d)
"""What has weights."""
WEIGHTS = re.compile(r"\bnn\.(Linear|Embedding|LayerNorm|RMSNorm|MultiheadAttention|Conv1d|Parameter)\(")


def of_parts(module: nn.Module) -> Iterator[Finding]:
    """B10, B21."""
    yield from hidden_modules(module)
    yield from (*trained_in_vain(module), *drawn_in_vain(module))[:1]
    yield from _made_anew(type(module))


def overwritten(function: object) -> Iterator[Finding]:
    """B30: a part that a factory makes and gives another's name, or the other way round: nothing gets the first."""
    waiting: dict[str, ast.expr] = {}
    for statement in getattr(tree_of(function), "body", ()):
        read = {n.id for n in nodes_in(statement, ast.Name) if isinstance(n.ctx, ast.Load)}
        waiting = {name: value for name, value in waiting.items() if name not in read}
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        names = [one.id for one in targets if isinstance(one, ast.Name)]
        made = statement.value if names and isinstance(statement.value, ast.Call) else None
        if made is not None and names[0] in waiting:
            first, second = ast.unparse(waiting[names[0]]), ast.unparse(made)
            said = f"{names[0]} = {first} is never used: {names[0]} = {second} takes its place."
            line = lines_of(function)[0][statement.lineno - 1].strip()
            yield Finding(MISTAKES["B30"], f"{said} {DONE_AT}{line}", names[0], fix=OF_NAMES)
            return
        waiting |= {names[0]: made} if made is not None else {}


def hidden_modules(module: nn.Module) -> Iterator[Finding]:
    """B10: modules in a list, a tuple or a dictionary, which torch does not look into."""
    for path, part in module.named_modules():
        for name, value in vars(part).items():
            hidden = [item for item in _modules_in(value) if [*item.parameters(), *item.buffers()]]
            if hidden and not name.startswith("_") and not (set(hidden) <= set(part.modules())):
                where = f"{path}.{name}" if path else name
                said = (
                    f"self.{where} is a Python {type(value).__name__} of {len(hidden)} modules; their parameters are "
                )
                yield Finding(MISTAKES["B10"], said + "not among model.parameters().")
                return


def trained_in_vain(module: nn.Module) -> Iterator[Finding]:
    """B10: self.weight = torch.randn(…, requires_grad=True), which is meant to be trained and no nn.Parameter."""
    classes: list[Any] = [*dict.fromkeys(type(part) for part in module.modules())]
    for cls in classes:
        for node in nodes_of(cls, ast.Assign) if not is_of_torch(cls) else ():
            name = ast.unparse(node.targets[0])
            if not name.startswith("self.") or not _is_to_be_trained(node.value):
                continue
            parts, kept = [part for part in module.modules() if type(part) is cls], name.removeprefix("self.")
            own = [vars(part).get(kept) for part in parts]
            is_set_again = any(kept in dict(part.named_parameters()) for part in parts)
            if not is_set_again and not any(isinstance(value, Tensor) and is_triangle(value) for value in own):
                line = source_of(cls).splitlines()[node.lineno - 1].strip()
                said = f"{name} is a tensor, no nn.Parameter: it is not among model.parameters()."
                yield Finding(MISTAKES["B10"], f"{said} {DONE_AT}{line}")
                return


def moved_at_once(module: nn.Module) -> Iterator[Finding]:
    """B10: self.weight = nn.Parameter(…).to(device), which is a plain tensor where it is moved at all."""
    for name, value, text in _assigned(module):
        made = MOVES_IT.fullmatch(ast.unparse(value))
        if name.startswith("self.") and made and not NOT_MOVED.match(made[1]):
            said = f"{name} is a parameter on the CPU alone: moved to a GPU, it is a tensor that is made of one"
            said = f"{said}, and not among model.parameters(). {DONE_AT}{_line(value, text)}"
            yield Finding(MISTAKES["B10"], said, MOVED, does=DOES_MOVE, fix=MOVES)
            return


MOVES_IT = re.compile(r"(?:\w+\.)*Parameter\(.*\)\.(?:to|cuda)\(([^()]*(?:\([^()]*\))?)\)")
NOT_MOVED = re.compile(r"(device=)?['\"]cpu|(dtype=)?torch\.(float|double|half|bfloat)")
"""What is said to stay, or to be of another type."""


DRAWN = re.compile(r"torch\.(rand|randn|empty)\([^()]*,")
MATRIX = re.compile(r"(?i)^self\.(w\w?|w_\w+|w(q|k|v|o)\w*|\w*weights?\w*|\w*(query|key|value)\w*)$")
"""A matrix that is drawn, and what one of attention's, or another that is to be trained, is called."""


def drawn_in_vain(module: nn.Module) -> Iterator[Finding]:
    """B10: self.w_query = torch.rand(d_model, d_model), which forward multiplies with, and no nn.Parameter."""
    for name, value, text in _assigned(module):
        if not MATRIX.match(name) or not DRAWN.match(ast.unparse(value)):
            continue
        if re.search(rf"(matmul|bmm|mm|linear|einsum)\([^\n]*{name}\b|@ *{name}\b", text):
            said = f"{name} is a tensor, no nn.Parameter: it is not among model.parameters()."
            yield Finding(MISTAKES["B10"], f"{said} {DONE_AT}{_line(value, text)}")
            return


def _assigned(module: nn.Module) -> Iterator[tuple[str, ast.expr, str]]:
    """What the learner's classes in a module set, to what, and the text of the class."""
    classes: list[Any] = [*dict.fromkeys(type(part) for part in module.modules())]
    for cls in filter(is_own, classes):
        for target, value in assignments(nodes_of(cls)):
            yield ast.unparse(target), value, source_of(cls)


def _line(node: ast.expr, text: str) -> str:
    return text.splitlines()[node.lineno - 1].strip()


def is_triangle(value: Tensor) -> bool:
    """Whether it is a causal mask, and no weight: square in its last axes, with two values, and a triangle."""
    if value.dim() < 2 or value.shape[-1] != value.shape[-2] or value.shape[-1] < 2:
        return False
    square = value.detach().double().reshape(-1, *value.shape[-2:])[0]
    lower, upper = square[-1, 0], square[0, -1]
    inside = torch.ones_like(square).tril().bool()
    return bool(lower != upper) and all(len(half.unique()) <= 2 for half in (square[inside], square[~inside]))


def _is_to_be_trained(made: ast.expr) -> bool:
    """Whether it is a call of torch's that makes a tensor with gradients."""
    if not isinstance(made, ast.Call):
        return False
    is_torch = ast.unparse(made.func).startswith("torch.")
    return is_torch and any(k.arg == "requires_grad" and ast.unparse(k.value) == "True" for k in made.keywords)


def _modules_in(value: object) -> list[nn.Module]:
    values = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [item for item in values if isinstance(item, nn.Module)]


def _made_anew(cls: type) -> Iterator[Finding]:
    """B21: Embedding(…)(x) in forward, of a class that has weights."""
    calls = nodes_of(getattr(cls, "forward", None), ast.Call)
    made = [call.func.func for call in calls if isinstance(call.func, ast.Call)]
    names = [name for name in dict.fromkeys(map(ast.unparse, made)) if _has_weights(meant_by(name, namespace_of(cls)))]
    if names:
        yield Finding(MISTAKES["B21"], f"Every call makes a new {', '.join(names)}, which is never trained.")


def _has_weights(thing: object) -> bool:
    return is_module_class(thing) and (thing in OF_TORCH or bool(WEIGHTS.search(source_of(thing))))  # type: ignore[arg-type]
