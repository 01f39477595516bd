"""B32 of what writes text: one tensor that it makes on the CPU, and one on a GPU, which its model gets together."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from scratch_transformer.kit.definitions import line_at, nodes_of
from scratch_transformer.kit.judge.frames import DONE_AT
from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import Session
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.syntax import arguments_of, assignments

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
    for call in [node for node in nodes if isinstance(node, ast.Call)]:
        texts = [ast.unparse(one) for one in arguments_of(call)]
        other = next((text for text in texts if text in there or ON_A_GPU.search(text)), "")
        name = next((text for text in texts if text in here), "")
        if other and name:
            line = line_at(function, here[name])
            said = f"{name} is made on the CPU, and {ast.unparse(call.func)} gets it beside {other}, which is on a GPU."
            yield Finding(MISTAKES["B32"], f"{said} {DONE_AT}{line}", does=DOES, fix=FIX)
            return


WRITERS_DEVICES = ((("B32",), on_two_devices),)
