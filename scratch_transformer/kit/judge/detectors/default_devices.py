"""B32 by what is written: what is told no device and takes the CPU then, def make_mask(ids, device="cpu"); one tensor
on the CPU and one on a GPU, which what writes text gives its model together.
"""

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
from scratch_transformer.kit.syntax import arguments_of, assignments

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


MADE = re.compile(r"torch\.(zeros|ones|full|tensor|empty|arange|LongTensor)\(")
MOVED = re.compile(r"\.(to|cuda|type_as|new_\w+)\(|device")
"""What may put it elsewhere."""
ON_A_GPU = re.compile(r"\.cuda\(|\.to\((device=)?['\"]cuda|device=['\"]cuda")
DOES = "Makes one tensor on the CPU, and moves another to a GPU, and gives both to the model, which stops."
FIX = "device=src.device for all that is made here: where the model's own input is."


def on_two_devices(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """By its text: a GPU that is not there stands for the CPU here."""
    definition: Any = session.candidate.definition
    function = getattr(definition, "function", definition)
    nodes = nodes_of(function)
    given: dict[str, list[ast.expr]] = {}
    for target, value in assignments(nodes):
        if isinstance(target, ast.Name):
            given.setdefault(target.id, []).append(value)
    there = {name for name, values in given.items() if any(ON_A_GPU.search(ast.unparse(one)) for one in values)}
    here = {name: values[0] for name, values in given.items() if MADE.match(ast.unparse(values[0]))}
    here = {n: made for n, made in here.items() if not any(MOVED.search(ast.unparse(one)) for one in given[n])}
    for call in nodes_of(function, ast.Call):
        texts = [ast.unparse(one) for one in arguments_of(call)]
        other = next((text for text in texts if text in there or ON_A_GPU.search(text)), "")
        name = next((text for text in texts if text in here), "")
        if other and name:
            line = line_at(function, here[name])
            said = f"{name} is made on the CPU, and {ast.unparse(call.func)} gets it beside {other}, which is on a GPU."
            yield Finding(MISTAKES["B32"], f"{said} {DONE_AT}{line}", does=DOES, fix=FIX)
            return


WRITERS_DEVICES = ((("B32",), on_two_devices),)
