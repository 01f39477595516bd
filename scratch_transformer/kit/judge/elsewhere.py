"""B32: what a call does where the module and its inputs are on another device, found out without one.

PyTorch's fake tensors compute shapes and devices alone, by the rules of the real operators: a product of tensors on two
devices stops as it does on a GPU, and a number, or an index on the CPU, is taken as it is there. "meta" is the device.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_map

from scratch_transformer.kit.definitions import is_own, leads_to, nodes_of
from scratch_transformer.kit.judge.frames import function_of, is_learners
from scratch_transformer.kit.judge.variants import call
from scratch_transformer.kit.kind import Candidate, Inputs

ELSEWHERE = "meta"
STOPS = re.compile(r"same device|two different devices|two devices|expected device")
MAKERS = frozenset(
    ("arange", "empty", "eye", "full", "linspace", "logspace", "ones", "rand", "randint", "randn", "randperm", "tensor")
    + ("tril_indices", "triu_indices", "zeros")
)
UNSEEN = re.compile(r"(Bool|Byte|Double|Float|Half|Int|Long|Short|^)Tensor$|^from_numpy$")
"""What makes tensors that a mode for functions is not told of."""


@dataclass(frozen=True)
class Left:
    """A tensor on the CPU that is used beside those of a module on another device.

    name: of the plain attribute that it comes from, "self.pe"; "" of one that a call makes. file, line: where it is
    made; where it is used, of an attribute, as far as that is the learner's.
    """

    name: str
    file: str
    line: int


def left(candidate: Candidate, inputs: Inputs, attributes: Mapping[int, str]) -> tuple[list[Left], bool]:
    """What stops a call on another device, in its order, and whether the call came to its end.

    attributes: id of a tensor -> the name of the plain attribute that holds it. The candidate's module is moved, and
    does not compute afterwards.
    """
    if not attributes and not _makes_any(candidate.module):
        return [], True
    if candidate.module is not None:
        candidate.module.to(ELSEWHERE)
    moved = {name: value.to(ELSEWHERE) if isinstance(value, Tensor) else value for name, value in inputs.items()}
    return watched(lambda: call(candidate, moved), attributes)


def watched(run: Callable[[], object], attributes: Mapping[int, str]) -> tuple[list[Left], bool]:
    """The same of any call whose weights and inputs are elsewhere.

    All that stops it: each is moved once it is found, and the call goes on. One that asks for numbers ends there.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode  # it takes a second to load

    watch = _Watch(attributes)
    try:
        with FakeTensorMode(allow_non_fake_inputs=True), watch:
            run()
    except Exception:  # fake tensors have no numbers, and the learner's code may raise anything
        return list(dict.fromkeys(watch.found)), False
    return list(dict.fromkeys(watch.found)), True


def _makes_any(module: nn.Module | None) -> bool:
    """Whether the learner's code makes a tensor, besides in constructors, without a word of its device."""
    classes = {type(part) for part in ([] if module is None else module.modules()) if is_own(type(part))}
    things = {thing for cls in classes for thing in (cls, *leads_to(cls))}
    functions = [f for one in things for f in ([one] if not isinstance(one, type) else _methods(one))]
    calls = [node for function in functions for node in nodes_of(function) if isinstance(node, ast.Call)]
    silent = [call for call in calls if all(keyword.arg != "device" for keyword in call.keywords)]
    names = [ast.unparse(call.func).rpartition(".")[2] for call in silent]
    return any(name in MAKERS or UNSEEN.search(name) for name in names)


def _methods(cls: type) -> list[Any]:
    return [member for name, member in vars(cls).items() if name != "__init__" and callable(member)]


class _Watch(TorchFunctionMode):
    """Sees each function of torch that is called, and where each tensor on the CPU comes from.

    Who says where a tensor is to be means where the module is: device, self.device, "cpu" by default.
    """

    def __init__(self, attributes: Mapping[int, str]) -> None:
        super().__init__()
        self.attributes = attributes
        self.found: list[Left] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        func, args, kwargs = _told_elsewhere(func, args, dict(kwargs or {}))
        frame = _learners()
        given = [one for one in tree_flatten((args, kwargs))[0] if isinstance(one, Tensor)]
        if frame is None and not given and getattr(func, "__name__", "") in MAKERS:
            kwargs.setdefault("device", ELSEWHERE)  # made by what calls the learner's code, not by it
        origins = [self._origin(one, frame) for one in given if _is_here(one)]
        try:
            if func is torch.nn.functional.embedding and len({one.device for one in given}) > 1:
                raise RuntimeError("same device")  # fake tensors let it pass
            result = func(*args, **kwargs)
        except RuntimeError as error:
            if not STOPS.search(str(error)) or not any(map(_is_here, given)):
                raise
            if frame is None or not _speaks_of_cuda(frame):
                self.found += [origin for origin in origins if origin is not None and (origin.name or frame)]
            args, kwargs = tree_map(_moved, (args, kwargs))
            result = func(*args, **kwargs)
        made = next((origin for origin in origins if origin is not None), None)
        if made is None and not given and frame is not None and not _speaks_of_cuda(frame):
            made = Left("", frame.f_code.co_filename, frame.f_lineno)
        if made is not None:
            for one in tree_flatten(result)[0]:
                if isinstance(one, Tensor) and _is_here(one):
                    one._made = made  # type: ignore[attr-defined]
        return result

    def _origin(self, value: Tensor, frame: FrameType | None) -> Left | None:
        known: Left | None = getattr(value, "_made", None)
        name = self.attributes.get(id(value), "")
        if known is not None or (frame is None and not name):
            return known
        line = 0 if frame is None else frame.f_lineno if name else _unseen(frame)
        return Left(name, "" if frame is None else frame.f_code.co_filename, line) if name or line else None


def _speaks_of_cuda(frame: FrameType) -> bool:
    """Whether the function asks for a GPU, and moves what it makes there if there is one: if mask.is_cuda."""
    return "cuda" in ast.unparse(function_of(frame) or ast.Module([], []))


def _unseen(frame: FrameType) -> int:
    """The line of a function at which it makes a tensor that a mode is not told of: torch.FloatTensor([d_k]); or 0."""
    calls = (node.func for node in ast.walk(function_of(frame) or ast.Module([], [])) if isinstance(node, ast.Call))
    return next((func.lineno for func in calls if UNSEEN.search(ast.unparse(func).rpartition(".")[2])), 0)


def _learners() -> FrameType | None:
    """The learner's frame that calls a function of torch, through the modes of the kit; None if the kit calls it."""
    frame: FrameType | None = sys._getframe(2)
    is_the_kits = False
    while frame is not None:
        if is_learners(frame):
            return None if is_the_kits else frame
        if frame.f_globals.get("__name__", "").startswith("scratch_transformer.kit"):
            is_the_kits = frame.f_code.co_name != "__torch_function__"  # a mode, and what it calls, stands between
        frame = frame.f_back
    return None


def _told_elsewhere(func: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    """A call that says where a tensor is to be, saying the other device."""
    name = getattr(func, "__name__", "")
    if name in ("cuda", "cpu"):
        return Tensor.to, (args[0], ELSEWHERE), {}
    if name == "to":
        args = tuple(ELSEWHERE if isinstance(one, (str, torch.device)) else one for one in args)
    if kwargs.get("device") is not None:
        kwargs["device"] = ELSEWHERE
    return func, args, kwargs


def _is_here(value: Tensor) -> bool:
    """On the CPU, and no single number, which goes with any device."""
    return value.device.type == "cpu" and value.dim() > 0


def _moved(value: Any) -> Any:
    return value.to(ELSEWHERE) if isinstance(value, Tensor) and _is_here(value) else value
