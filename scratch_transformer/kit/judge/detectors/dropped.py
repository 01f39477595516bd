"""What is dropped where it should not be: scores, so that the zeros get into a softmax, which makes weights of them
again (A40); what a dropout gives, which goes straight into another one (B34). What a dropout of one's own drops in
training, and what it makes of the rest (B11).
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


P, NUMBERS = 0.2, (40, 50, 60)
FAR = 0.02
"""How far the share of zeros may be from p: ten times what chance does among so many."""
FIX = "x * (torch.rand_like(x) >= p) / (1 - p): what is left is made larger, so that the mean stays what it is."


def of_ones(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B11: told p, it drops another share, or leaves what is not dropped as it is."""
    if session.kind.name != "Dropout":
        return
    candidate = session.candidate.rebuild(dropout=P)
    with in_training(candidate):
        output = call(candidate, {"x": torch.ones(NUMBERS, dtype=torch.float64)})
    is_zero, kept = output == 0, output[output != 0]
    if any(bool((is_zero == is_zero.narrow(axis, 0, 1)).all()) for axis in range(is_zero.dim())):
        return  # whole sentences, or features, are dropped: it is of another sort
    zeros = float(is_zero.double().mean())
    if abs(zeros - P) > FAR:
        yield Finding(MISTAKES["B11"], f"Told p = {P}, in training it sets {zeros:.0%} of its numbers to 0.", fix=FIX)
    elif len(kept) and not torch.allclose(kept, torch.tensor(1 / (1 - P), dtype=kept.dtype), rtol=1e-5):
        said = f"Told p = {P}, in training it multiplies what it keeps by {float(kept.mean()):.3g}, not by 1 / (1 - p)"
        yield Finding(
            MISTAKES["B11"], f"{said} = {1 / (1 - P):.3g}: their mean differs from that after eval().", fix=FIX
        )


OWN_DROPOUT = ((("B11",), of_ones),)
