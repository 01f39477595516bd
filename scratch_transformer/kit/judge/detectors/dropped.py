"""What is dropped where it should not be: scores, so that the zeros get into a softmax, which makes weights of them
again (A40); what a dropout gives, which goes straight into another one (B34).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from scratch_transformer.kit.judge.frames import DONE_AT, line_now
from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import Session
from scratch_transformer.kit.judge.training import in_training, told, with_dropout
from scratch_transformer.kit.judge.variants import call
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES

SOFTMAX = ("softmax", "log_softmax", "exp", "exp_")
"""By hand it is exp(x), or exp(x - max)."""
BLOCKED = -1e3
"""No score of the probes is as small: it was masked."""


class _Scores(TorchFunctionMode):
    """Every dropout drops half. At which line of a learner's it drops what a softmax is made of."""

    def __init__(self) -> None:
        super().__init__()
        self.dropped: dict[torch.Size, tuple[Tensor, str]] = {}
        """Where something was dropped last, of each shape, and at which line."""
        self.line = ""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        if func is torch.nn.functional.dropout:
            named = told(args, kwargs)
            output: Tensor = func(**{**named, "p": 0.5, "training": True})
            self.dropped[output.shape] = (output == 0) | output.isnan(), line_now()
            return output
        if not self.line and getattr(func, "__name__", "") in SOFTMAX and args and isinstance(args[0], Tensor):
            dropped, line = self.dropped.get(args[0].shape, (None, ""))
            self.line = line if dropped is not None and _are_in(dropped, args[0]) else ""
        return func(*args, **given)


def _are_in(dropped: Tensor, scores: Tensor) -> bool:
    """Whether what was dropped is all alike in every row of scores: 0, or what was subtracted from all; or NaN."""
    if bool((scores.isnan() & dropped).any()):
        return True
    counts = dropped & (scores > BLOCKED)
    most = scores.masked_fill(~counts, -torch.inf).amax(-1, keepdim=True)
    least = scores.masked_fill(~counts, torch.inf).amin(-1, keepdim=True)
    has_two = counts.sum(-1, keepdim=True) > 1
    left = ~dropped & (scores > BLOCKED) & has_two
    return bool((left & (scores != most)).any()) and not bool((has_two & (most != least)).any())


def dropped_scores(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """A40: numbers in evaluation do not show it, nor does what a whole gives in training."""
    with in_training(session.candidate), _Scores() as seen:
        call(session.candidate, session.ran[0].probe.inputs)
    if seen.line:
        said = f"In training the softmax gets the zeros that dropout makes of scores. {DONE_AT}{seen.line}"
        yield Finding(MISTAKES["A40"], said)


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
        if func is torch.nn.functional.dropout:
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


DROPPED = ((("A40",), dropped_scores), (("B34",), dropped_twice))
