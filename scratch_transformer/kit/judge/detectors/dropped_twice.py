"""B34: what a dropout gives goes straight into another one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor
from torch.nn.functional import dropout
from torch.overrides import TorchFunctionMode

from scratch_transformer.kit.judge.detectors.dropout import with_dropout
from scratch_transformer.kit.judge.frames import DONE_AT, line_now
from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import Session
from scratch_transformer.kit.judge.training import in_training, told
from scratch_transformer.kit.judge.variants import call
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES

SAME_NUMBERS = (
    *("view", "reshape", "transpose", "permute", "contiguous", "flatten", "unflatten", "squeeze", "unsqueeze"),
    *("clone", "to", "float", "double", "type", "swapaxes", "expand"),
)
"""Functions after which what was dropped is still so."""


class _Dropouts(TorchFunctionMode):
    """At which lines of a learner's something is dropped, and dropped again."""

    def __init__(self) -> None:
        super().__init__()
        self.dropped: dict[int, tuple[Tensor, str]] = {}
        """By the identity of what was dropped, which is kept so that no other gets it; and where that was."""
        self.lines: tuple[str, str] | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        if not isinstance(output, Tensor):
            return output
        named = told(args, kwargs)
        before = self.dropped.get(id(named.get("input")))
        if func is dropout:
            if named.get("p", 0.5) > 0 and named.get("training", True):
                if before is not None and self.lines is None:
                    self.lines = before[1], line_now()
                self.dropped[id(output)] = output, line_now()
        elif before is not None and getattr(func, "__name__", "") in SAME_NUMBERS:
            self.dropped[id(output)] = output, before[1]
        return output


def dropped_twice(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """Of the learner's own dropouts: what the kit puts in place of parts has its own."""
    if session.candidate.module is None or session.candidate.replaced:
        return
    candidate = with_dropout(session) or session.candidate
    with in_training(candidate), _Dropouts() as seen:
        call(candidate, session.ran[0].probe.inputs)
    if seen.lines is not None:
        first, second = seen.lines
        said = f"In training, what «{first}» has dropped is dropped again" if first != second else "It drops twice"
        yield Finding(MISTAKES["B34"], f"{said}: of numbers that are dropped with p = 0.1, 19 % are. {DONE_AT}{second}")


DROPPED_TWICE = ((("B34",), dropped_twice),)
