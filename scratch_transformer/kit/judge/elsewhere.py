"""B32: what a call does where the module and its inputs are on another device, found out without one.

All tensors stay where they are. Some are said to be elsewhere: the module's, its inputs, what is computed from them,
what is made there. Operators refuse tensors of both places, as PyTorch does on a GPU.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from scratch_transformer.kit.definitions import is_own, leads_to, nodes_of
from scratch_transformer.kit.judge.frames import function_of, is_learners
from scratch_transformer.kit.judge.variants import call
from scratch_transformer.kit.kind import Candidate, Inputs
from scratch_transformer.kit.syntax import arguments_of, is_on, nodes_in

ELSEWHERE = torch.device("meta")
"""The device that code is told, if it asks for one of a tensor that is elsewhere."""
COPIES = frozenset(("aten::copy_", "aten::_to_copy"))
INDEXES = frozenset(("aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"))
"""Operators that take tensors of two devices: copies, and a tensor that others, on the CPU, index."""
WHERE = {Tensor.device.__get__: ELSEWHERE, Tensor.is_cuda.__get__: True}  # type: ignore[attr-defined]
"""What a tensor elsewhere says of itself."""
FOLLOWERS = frozenset(("new", "new_tensor", "to", "type_as"))
"""What makes a tensor where the last one is that it is given."""
MAKERS = frozenset(
    ("arange", "empty", "eye", "full", "linspace", "logspace", "ones", "rand", "randint", "randn", "randperm", "tensor")
    + ("tril_indices", "triu_indices", "zeros")
)
SENDERS = ("cpu", "to")
CPU = ("'cpu'", "torch.device('cpu')")
"""What puts a tensor on the CPU, and how it is named."""
STAND_INS = "scratch_transformer.kit.discover"
"""Where the packages are that are not installed; what the learner's code calls there, einops.rearrange, is its own."""
UNSEEN = re.compile(r"(Bool|Byte|Double|Float|Half|Int|Long|Short|^)Tensor$|^from_numpy$")
"""What makes tensors that a mode for functions is not told of."""


@dataclass(frozen=True)
class Left:
    """A tensor on the CPU that is used beside those of a module on another device.

    name: of the plain attribute that it comes from, "self.pe"; "" of one that a call makes. file, line: where it is
    made; where it is used, of an attribute, as far as that is the learner's. is_returned: what stops is whoever adds
    what is returned to something else. is_sent: it was where the module is, and the code puts it on the CPU by name.
    """

    name: str
    file: str
    line: int
    is_returned: bool = False
    is_sent: bool = False


def left(
    candidate: Candidate, inputs: Inputs, attributes: Mapping[int, str], output_counts: bool = False
) -> tuple[list[Left], bool]:
    """What stops a call on another device, in its order, and whether the call came to its end.

    attributes: id of a tensor -> the name of the plain attribute that holds it. output_counts: whether its output is
    added to its inputs by whoever calls it, and is to be where they are.
    """
    if not attributes and not _makes_any(candidate.module):
        return [], True
    return watched(lambda moved: call(candidate, moved), candidate.module, inputs, attributes, output_counts)


def watched(
    run: Callable[[Any], object], module: nn.Module | None, inputs: Any, attributes: Mapping[int, str],
    output_counts: bool = False,
) -> tuple[list[Left], bool]:  # fmt: skip
    """The same of any call that is given the inputs, whose tensors are elsewhere as the module's are.

    All that stops it: each is moved once it is found, and the call goes on.
    """
    places = _Places()
    if module is not None:
        module._apply(places.moved)  # as its `to` does
    watch = _Watch(attributes, places, output_counts)
    try:
        with places, watch:
            run(tree_map(places.moved, inputs))
    except Exception:  # the learner's code may raise anything
        return list(dict.fromkeys(watch.found)), False
    return list(dict.fromkeys(watch.found)), True


def _makes_any(module: nn.Module | None) -> bool:
    """Whether the learner's code makes a tensor, besides in constructors, not saying where, or puts one on the CPU."""
    classes = {type(part) for part in ([] if module is None else module.modules()) if is_own(type(part))}
    things = {thing for cls in classes for thing in (cls, *leads_to(cls))}
    functions = [f for one in things for f in ([one] if not isinstance(one, type) else _methods(one))]
    calls = [node for function in functions for node in nodes_of(function, ast.Call)]
    if any(map(_names_the_cpu, calls)):
        return True
    silent = [call for call in calls if all(keyword.arg != "device" for keyword in call.keywords)]
    names = [ast.unparse(call.func).rpartition(".")[2] for call in silent]
    return any(name in MAKERS or UNSEEN.search(name) for name in names)


def _methods(cls: type) -> list[Any]:
    return [member for name, member in vars(cls).items() if name != "__init__" and callable(member)]


class _TwoDevices(RuntimeError):
    """What PyTorch says on a GPU: Expected all tensors to be on the same device."""


class _Places(TorchDispatchMode):
    """Which tensors are elsewhere, by their storage. An operator takes those of one place, and its result is there."""

    def __init__(self) -> None:
        super().__init__()
        self.storages = dict[int, torch.UntypedStorage]()  # kept, or another might be at the same address
        self.makes = False
        """Whether what is made of no tensor is elsewhere."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False, or else torch loads its compiler before the first call, which takes seconds."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name().partition(".")[0]
        given = _tensors((args, kwargs))
        if name in INDEXES:
            given = [given[0], *filter(self.has, given[1:])]
        are_elsewhere = {self.has(one) for one in given if one.dim() > 0 or self.has(one)}
        if len(are_elsewhere) > 1 and name not in COPIES:
            raise _TwoDevices
        with torch._C.DisableTorchFunction():  # an operator is nothing that the learner's code calls
            result = func(*args, **(kwargs or {}))
        if self.makes if not given else name != "aten::copy_" and True in are_elsewhere:
            self.put(result)
        return result

    def has(self, value: Tensor) -> bool:
        return value.untyped_storage()._cdata in self.storages

    def put(self, values: Any) -> None:
        """What was made elsewhere."""
        for value in _tensors(values):
            storage = value.untyped_storage()
            self.storages[storage._cdata] = storage

    def sent(self, value: Tensor) -> Tensor:
        """A copy on the CPU of a tensor that is elsewhere."""
        copy = value.clone()
        self.storages.pop(copy.untyped_storage()._cdata, None)
        return copy

    def moved(self, value: Any) -> Any:
        """A tensor on the other device; what is none, as it is."""
        if not isinstance(value, Tensor) or self.has(value):
            return value
        copy = value.clone()
        self.put(copy)
        return copy


class _Watch(TorchFunctionMode):
    """Sees each function of torch that is called, and where each tensor on the CPU comes from.

    Who says where a tensor is to be means where the module is: device, self.device, "cpu" by default.
    """

    def __init__(self, attributes: Mapping[int, str], places: _Places, output_counts: bool = False) -> None:
        super().__init__()
        self.attributes, self.places, self.output_counts = attributes, places, output_counts
        self.found: list[Left] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, places = getattr(func, "__name__", ""), self.places
        if func in WHERE and places.has(args[0]):
            return WHERE[func]
        frame = _learners()
        if name in SENDERS and frame is not None and places.has(args[0]) and _sends(frame, name):
            args, kwargs, _ = _without_device(name, args, dict(kwargs or {}))
            here = places.sent(func(*args, **kwargs) if len(args) + len(kwargs) > 1 else args[0])
            here._made = Left("", frame.f_code.co_filename, frame.f_lineno, is_sent=True)  # type: ignore[attr-defined]
            return here
        args, kwargs, is_told = _without_device(name, args, dict(kwargs or {}))
        if name in ("cuda", "cpu") or (name == "to" and len(args) + len(kwargs) == 1):
            return places.moved(args[0])
        given = _tensors((args, kwargs))
        is_told |= frame is None and not given and name in MAKERS  # made by what calls the learner's code, not by it
        is_told |= name in FOLLOWERS and any(map(places.has, given[-1:]))
        origins = [self._origin(one, frame) for one in given if self._is_here(one)]
        places.makes = any(map(places.has, given))  # within a function of torch's
        try:
            result = func(*args, **kwargs)
        except _TwoDevices:
            if frame is None or not _speaks_of_cuda(frame):
                known = [origin for origin in origins if origin is not None]
                self.found += [origin for origin in known if origin.name or frame]
                if self.output_counts and frame is None:
                    self.found += [replace(origin, is_returned=True) for origin in known if not origin.name]
            args, kwargs = tree_map(places.moved, (args, kwargs))
            result = func(*args, **kwargs)
        finally:
            places.makes = False
        if is_told:
            return tree_map(places.moved, result)
        made = next((origin for origin in origins if origin is not None), None)
        if made is None and not given and frame is not None and not _speaks_of_cuda(frame):
            made = Left("", frame.f_code.co_filename, frame.f_lineno)
        for one in _tensors(result) if made is not None else ():
            if self._is_here(one):
                one._made = made  # type: ignore[attr-defined]
        return result

    def _is_here(self, value: Tensor) -> bool:
        """On the CPU, and no single number, which goes with any device."""
        return value.dim() > 0 and not self.places.has(value)

    def _origin(self, value: Tensor, frame: FrameType | None) -> Left | None:
        known: Left | None = getattr(value, "_made", None)
        name = self.attributes.get(id(value), "")
        if known is not None or (frame is None and not name):
            return known
        line = 0 if frame is None else frame.f_lineno if name else _unseen(frame)
        found = Left(name, "" if frame is None else frame.f_code.co_filename, line) if name or line else None
        if found is not None and not name:
            value._made = found  # type: ignore[attr-defined]  # whoever it is returned to uses it elsewhere
        return found


def _without_device(name: str, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any], bool]:
    """What a function is given besides the device that a tensor is to be on, and whether it is told one."""
    is_told = kwargs.pop("device", None) is not None
    if name == "to":
        kwargs.pop("non_blocking", None)
        others = tuple(one for one in args if not isinstance(one, (str, torch.device)))
        args, is_told = others, is_told or len(others) < len(args)
    return args, kwargs, is_told


def _sends(frame: FrameType, name: str) -> bool:
    """Whether the line that is run puts tensors on the CPU by this method, and names it: x.cpu(), x.to("cpu")."""
    calls = [call for call in nodes_in(function_of(frame), ast.Call) if is_on(call, frame.f_lineno)]
    own = [one for one in calls if isinstance(one.func, ast.Attribute) and one.func.attr == name]
    return bool(own) and all(map(_names_the_cpu, own))


def _names_the_cpu(call: ast.Call) -> bool:
    """Whether a call is x.cpu(), or x.to("cpu"), which say so whatever the device is."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    given = [one for one in arguments_of(call) if ast.unparse(one) in CPU]
    return name == "cpu" or (name == "to" and bool(given))


def _speaks_of_cuda(frame: FrameType) -> bool:
    """Whether the function asks for a GPU, and moves what it makes there if there is one: if mask.is_cuda."""
    return "cuda" in ast.unparse(function_of(frame) or ast.Module([], []))


def _unseen(frame: FrameType) -> int:
    """The line of a function at which it makes a tensor that a mode is not told of: torch.FloatTensor([d_k]); or 0."""
    calls = (node.func for node in nodes_in(function_of(frame), ast.Call))
    return next((func.lineno for func in calls if UNSEEN.search(ast.unparse(func).rpartition(".")[2])), 0)


def _learners() -> FrameType | None:
    """The learner's frame that calls a function of torch, through the modes of the kit; None if the kit calls it."""
    frame: FrameType | None = sys._getframe(2)
    is_the_kits = False
    while frame is not None:
        if is_learners(frame):
            return None if is_the_kits else frame
        module = frame.f_globals.get("__name__", "")
        if module.startswith("scratch_transformer.kit") and not module.startswith(STAND_INS):
            is_the_kits = frame.f_code.co_name != "__torch_function__"  # a mode, and what it calls, stands between
        frame = frame.f_back
    return None


def _tensors(values: Any) -> list[Tensor]:
    return [one for one in tree_leaves(values) if isinstance(one, Tensor)]
