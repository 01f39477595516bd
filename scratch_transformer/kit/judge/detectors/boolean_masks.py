"""A16 of what makes a mask: -∞ is written into a boolean one, which stays that. It is right where True is to block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from scratch_transformer.kit.judge.frames import DONE_AT, line_now
from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import Session
from scratch_transformer.kit.judge.variants import call
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.attention import IN_BOOLEANS

WRITES = ("masked_fill", "masked_fill_", "__setitem__", "fill_")
FAR = -1e4
"""No number of a mask that is to be added is nearer to 0."""


class _Written(TorchFunctionMode):
    """At which line of a learner's a number far below 0 is written into what has True and False alone."""

    line = ""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        is_one = getattr(func, "__name__", "") in WRITES and not self.line
        if is_one and isinstance(args[0], Tensor) and args[0].dtype == torch.bool:
            value = (kwargs or {}).get("value", args[-1])
            self.line = line_now() if isinstance(value, float | int) and value <= FAR else ""
        return func(*args, **(kwargs or {}))


def written_into_booleans(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """Of a function that makes a mask; what adds it is judged by itself, with masks that may be added."""
    if best is None or not session.kind.name.endswith("Mask"):
        return
    with _Written() as written:
        call(session.candidate, session.ran[0].probe.inputs)
    if written.line:
        said = "The mask is boolean, and -∞ becomes True in it: added to scores it is 1, which blocks nothing."
        yield Finding(MISTAKES["A16"], f"{said} {DONE_AT}{written.line}", IN_BOOLEANS)


BOOLEAN_MASKS = ((("A16",), written_into_booleans),)
