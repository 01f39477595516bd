"""P5, A30: tables and masks that a move of the module to another device forgets."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import Session
from scratch_transformer.kit.judge.variants import call
from scratch_transformer.kit.kind import Candidate, Finding
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.masks import TOLD_DEVICE

Detector = Callable[[Session, Hypothesis | None], Iterator[Finding]]


def left_behind(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """P5, A30: a table of positions, or a mask, that the constructor makes and a move to another device forgets."""
    fresh = _made_again(session)
    width = session.settings.get("d_model")
    found: set[str] = set()
    for path, name, value, owner in _plain_tensors(session.candidate if fresh is None else fresh):
        is_table = value.dim() >= 2 and value.is_floating_point() and value.shape[-1] == width
        is_table = is_table and not getattr(value, "is_given", False)  # where that is, is its maker's affair
        id = "A30" if _is_mask(value) else "P5" if is_table else ""
        if fresh is None and not _is_made_first(name, owner):
            continue
        if id in session.kind.ids - found and not _moves(name, owner) and _stays(session, fresh):
            found.add(id)
            full = f"self.{path}.{name}" if path else f"self.{name}"
            said = f"{full}, of shape {tuple(value.shape)}, is neither a parameter nor a buffer."
            yield Finding(MISTAKES[id], said, TOLD_DEVICE if _is_told_where(name, owner) else full, name=full)


def _made_again(session: Session) -> Candidate | None:
    """What the constructor makes, before any call keeps anything."""
    try:
        return session.candidate.rebuild()
    except Exception:  # it cannot be built again
        return None


def _plain_tensors(candidate: Candidate) -> Iterator[tuple[str, str, Tensor, type[nn.Module]]]:
    """Path, name, value and class of the tensors that are plain attributes of a module or of a part of it."""
    for path, part in () if candidate.module is None else candidate.module.named_modules():
        for name, value in list(vars(part).items()):
            if isinstance(value, Tensor) and not value.requires_grad:
                yield path, name, value, type(part)


def _is_made_first(name: str, owner: type[nn.Module]) -> bool:
    """Whether the constructor makes an attribute: what a call makes is where its input is."""
    return name in getattr(owner.__init__, "__code__", _is_made_first.__code__).co_names


def _is_told_where(name: str, owner: type[nn.Module]) -> bool:
    """Whether the constructor puts an attribute, or what it is made of, where it is told: self.pe = pe.to(device)."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(owner.__init__)))
    except (OSError, TypeError, SyntaxError):
        return False
    made: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                made.setdefault(ast.unparse(target), []).append(node.value)
    waiting, seen = [f"self.{name}"], set[str]()
    while waiting:
        seen.add(one := waiting.pop())
        parts = [part for value in made.get(one, ()) for part in ast.walk(value)]
        if any(isinstance(part, ast.Call) and _names_a_device(part) for part in parts):
            return True
        waiting += [part.id for part in parts if isinstance(part, ast.Name) and part.id not in seen]
    return False


def _names_a_device(call: ast.Call) -> bool:
    """Whether a call has device=device, or is .to(self.device); "cuda" itself is a device that not everybody has."""
    given = [keyword.value for keyword in call.keywords if keyword.arg == "device"]
    given += call.args[:1] if isinstance(call.func, ast.Attribute) and call.func.attr == "to" else []
    return any("device" in ast.unparse(value).lower() for value in given if not isinstance(value, ast.Constant))


def _moves(name: str, owner: type[nn.Module]) -> bool:
    """Whether a method of the class moves the attribute, as far as its text tells; the constructor comes too early."""
    methods = [method for of, method in vars(owner).items() if inspect.isfunction(method) and of != "__init__"]
    try:
        text = "".join(map(inspect.getsource, methods))
    except (OSError, TypeError):
        return False
    return bool(re.search(rf"self\.{name}\b[^\n]*(\.to\(|\.cuda\(|type_as)", text))


def _stays(session: Session, fresh: Candidate | None) -> bool:
    """Whether forward stops where the module is on another device than the attribute."""
    if fresh is None or fresh.module is None:
        return True
    inputs = {n: _elsewhere(v) for n, v in session.ran[0].probe.inputs.items()}
    fresh.module.float().to("meta")
    try:
        call(fresh, inputs)
    except Exception as error:  # anything may not exist on a device without numbers
        return bool(re.search(r"device|meta", str(error)))
    return False


def _elsewhere(value: object) -> object:
    if not isinstance(value, Tensor):
        return value
    return value.to("meta", torch.float32) if value.is_floating_point() else value.to("meta")


def _is_mask(value: Tensor) -> bool:
    """Square in its last axes, with two values, and a triangle."""
    if value.dim() < 2 or value.shape[-1] != value.shape[-2] or value.shape[-1] < 2:
        return False
    square = value.double().reshape(-1, *value.shape[-2:])[0]
    lower, upper = square[-1, 0], square[0, -1]
    inside = torch.ones_like(square).tril().bool()
    return bool(lower != upper) and all(len(half.unique()) <= 2 for half in (square[inside], square[~inside]))


DEVICES: tuple[tuple[tuple[str, ...], Detector], ...] = ((("P5", "A30"), left_behind),)
