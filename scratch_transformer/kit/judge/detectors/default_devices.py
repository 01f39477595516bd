"""B32 of what is told no device where it is called, and takes the CPU then: def make_mask(ids, device="cpu")."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from typing import Any

from torch import nn

from scratch_transformer.kit.definitions import is_of_torch, line_at, nodes_of, parameters_of, reads
from scratch_transformer.kit.judge.frames import DONE_AT
from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import Session
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES

DEVICE = "device"


def told_no_device(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """The first such call in the forward of a module, or of a part of it."""
    module = session.candidate.module
    parts = {type(part) for part in module.modules()} if module is not None else set()
    for cls in sorted((one for one in parts if not is_of_torch(one)), key=lambda one: one.__qualname__):
        forward: Any = getattr(cls, "forward", None)
        for call in nodes_of(forward, ast.Call):
            if not _is_left_on_the_cpu(call, cls, forward):
                continue
            said, name = ast.unparse(call), ast.unparse(call.func)
            where = f"{ast.unparse(call.args[0])}.device" if call.args else "next(self.parameters()).device"
            fix = f"{said[:-1]}{', ' if call.args or call.keywords else ''}device={where})."
            line = line_at(forward, call)
            said = f"{name} makes its tensors on the CPU unless it is told. {DONE_AT}{line}"
            yield Finding(MISTAKES["B32"], said, fix=fix)
            return


def _is_left_on_the_cpu(call: ast.Call, cls: type[nn.Module], forward: Any) -> bool:
    """Whether a call of the file's own function, or of a method, leaves out a device that is the CPU by default."""
    called: Any = None
    if isinstance(call.func, ast.Name):
        called = getattr(forward, "__globals__", {}).get(call.func.id)
    elif re.fullmatch(r"self\.\w+", ast.unparse(call.func)):
        called = inspect.getattr_static(cls, call.func.attr, None)  # type: ignore[attr-defined]
    called = getattr(called, "__func__", called)
    if not inspect.isfunction(called) or is_of_torch(called) or not reads(called, DEVICE):
        return False
    names = [p.name for p in parameters_of(called)]
    if DEVICE not in names:
        return False
    default = next((p.default for p in parameters_of(called) if p.name == DEVICE), None)
    is_given = any(word.arg in (DEVICE, None) for word in call.keywords) or len(call.args) > names.index(DEVICE)
    return str(default) == "cpu" and not is_given


DEFAULT_DEVICES = ((("B32",), told_no_device),)
