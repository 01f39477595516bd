"""Records what the reference computes while it computes it: every operation on a tensor, and the line it is on.

A `TorchFunctionMode` sees each operation of this thread. The frames above it say which function of the reference it
belongs to (`sites`), in which module, and on which line. So the reference knows nothing of being watched, the lines are
those that ran, and outside of `recording` nothing is there that could cost time.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.overrides import TorchFunctionMode

from scratch_transformer.by_hand import equations_alone
from scratch_transformer.trace import kinds
from scratch_transformer.trace.kinds import Kind
from scratch_transformer.trace.sites import SITES, Site

PACKAGE = str(Path(__file__).parents[1])

Line = tuple[CodeType | None, int]
"""A function's code, and the number of a line of it; a function of C has none."""


@dataclass(frozen=True)
class Recorded:
    """One tensor: its name, the path of its module, what it is, and the line that computed it, for the site's sake."""

    name: str
    module: str
    tensor: Tensor
    kind: Kind
    line: Line
    function: Callable[..., Any]


@dataclass
class _Call:
    """A site that is running: what it has done so far, and its last result with the line that made it."""

    frame: FrameType
    site: Site
    number: int
    module: str | None
    is_whole: bool  # of a module without others in it: what the site returns, the module returns
    operations: Counter[str] = field(default_factory=Counter)
    calls: Counter[CodeType] = field(default_factory=Counter)
    result: Tensor | None = None
    line: Line | None = None
    shown: Line | None = None


class Recorder(TorchFunctionMode):
    """What happened, in order: `points`. `names` also has the modules whose output is a point of another name."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.points: list[Recorded] = []
        self.names: dict[str, int] = {}
        self._modules = {id(m): (path, m) for path, m in model.named_modules()} if isinstance(model, Module) else {}
        self._open: list[_Call] = []
        self._calls: Counter[CodeType] = Counter()
        self._made: dict[tuple[int, int], int] = {}
        self._of_modules: dict[tuple[int, int] | str | None, tuple[Site, Kind, Line]] = {}
        self._kept: list[Tensor] = []  # a tensor that is gone could leave its id to another one

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            self._operation(getattr(func, "__name__", "").strip("_"), result, sys._getframe(1))
        return result

    def output(self, path: str, module: Any, output: Any, frame: FrameType | None) -> None:
        """Take note of what a module, or the function that is traced, has returned."""
        self._close(_sites(_frames(frame)))
        tensor = output[0] if isinstance(output, tuple) else output
        if not isinstance(tensor, Tensor):
            return
        name = _joined(path, "") or kinds.OUTPUT.name
        if _identity(tensor) in self._made:
            self.names.setdefault(name, self._made[_identity(tensor)])
            return
        of_module = self._of_modules.get(_identity(tensor)) or self._of_modules.get(path)
        site, kind, line = of_module or (None, kinds.OUTPUT, None)
        kind = kinds.BY_MODULE.get(path.rpartition(".")[2], kind) if kind is kinds.LINEAR else kind
        function = site.function if site else module.forward if isinstance(module, Module) else module
        self._emit(name, path, tensor, kind, line or _first_line(function), function)

    def _operation(self, name: str, result: Tensor, frame: FrameType) -> None:
        frames = list(_frames(frame))
        chain = _sites(iter(frames))
        self._close(chain)
        for opened in chain[len(self._open) :]:
            self._open.append(self._started(opened))
        if not self._open:
            return
        here = next(f for f in frames if f.f_code.co_filename.startswith(PACKAGE))
        call, line = self._open[-1], (here.f_code, here.f_lineno)
        for each in self._open:
            each.result, each.line = result, line
        if name in call.site.by:
            call.shown = line
        named = call.site.inside.get(name, ())
        kind = named[call.operations[name]] if call.operations[name] < len(named) else None
        call.operations[name] += 1
        if kind is not None:
            self._emit(_joined(call.module, kind.name), call.module or "", result, kind, line, call.site.function)

    def _started(self, frame: FrameType) -> _Call:
        site = SITES[frame.f_code]
        calls = self._open[-1].calls if self._open else self._calls
        calls[frame.f_code] += 1
        owners = (self._modules.get(id(f.f_locals.get("self"))) for f in _frames(frame))
        path, module = next((owner for owner in owners if owner is not None), (None, None))
        is_within = any(call.module == path for call in self._open)
        is_whole = module is not None and not is_within and not any(True for _ in module.children())
        return _Call(frame, site, calls[frame.f_code] - 1, path, is_whole)

    def _close(self, chain: list[FrameType]) -> None:
        """End the sites that are not running any more. chain: those that are, the outermost first."""
        same = 0
        while same < min(len(chain), len(self._open)) and self._open[same].frame is chain[same]:
            same += 1
        while len(self._open) > same:
            self._ended(self._open.pop())

    def _ended(self, call: _Call) -> None:
        returns, result, line = call.site.returns, call.result, call.shown or call.line
        if not returns or result is None or line is None:
            return
        kind = returns[min(call.number, len(returns) - 1)]
        if call.site.names_module or call.is_whole:
            self._of_modules[_identity(result)] = (call.site, kind, line)
            if call.is_whole:  # in half precision the module returns another tensor: this one, rounded
                self._of_modules[call.module] = (call.site, kind, line)
            self._kept.append(result)
        else:
            self._emit(_joined(call.module, kind.name), call.module or "", result, kind, line, call.site.function)

    def _emit(
        self, name: str, module: str, tensor: Tensor, kind: Kind, line: Line, function: Callable[..., Any]
    ) -> None:
        again = 2
        unique = name
        while unique in self.names:
            unique, again = f"{name}#{again}", again + 1
        self.names[unique] = self._made[_identity(tensor)] = len(self.points)
        self._kept.append(tensor)
        self.points.append(Recorded(unique, module, tensor.detach().clone(), kind, line, function))


@contextmanager
def recording(model: Any) -> Iterator[Recorder]:
    """A recorder that watches `model`, a module or a function, for as long as the block runs. It leaves nothing behind.

    Operations are seen by the mode. What a module returns is told by a hook on each, which is removed at the end.
    """
    recorder = Recorder(model)
    handles = []
    for path, module in recorder._modules.values():

        def note(module: Module, args: Any, output: Any, path: str = path) -> None:
            with torch._C.DisableTorchFunction():
                recorder.output(path, module, output, sys._getframe(1))

        handles.append(module.register_forward_hook(note))
    try:
        with equations_alone(), recorder:
            yield recorder
    finally:
        for handle in handles:
            handle.remove()


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    """A frame and its callers, up to the one that records."""
    while frame is not None and frame.f_code is not _END:
        yield frame
        frame = frame.f_back


def _sites(frames: Iterator[FrameType]) -> list[FrameType]:
    return [frame for frame in frames if frame.f_code in SITES][::-1]


def _first_line(function: Callable[..., Any]) -> Line:
    code = getattr(function, "__code__", None)
    return code, code.co_firstlineno if code else 0


def _identity(tensor: Tensor) -> tuple[int, int]:
    """The same only for the same tensor with the same values: operations in place count versions."""
    return id(tensor), 0 if tensor.is_inference() else tensor._version


def _joined(module: str | None, name: str) -> str:
    """The name of a tensor in a module: short, without the "_block" of the tutorials' names."""
    return ".".join(part for part in ((module or "").replace("_block", ""), name) if part)


def watched(model: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Recorder, Any]:
    """Call a module or a function, and record it: the recorder and the output."""
    with recording(model) as recorder:
        output = model(*args, **kwargs)
        with torch._C.DisableTorchFunction():
            recorder.output("", model, output, None)
    return recorder, output


_END = watched.__code__
