"""What came of trying to take a class or function for one kind."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from scratch_transformer.kit.judge.frames import frames_of, in_one_line, learners_places
from scratch_transformer.kit.kind import Kind
from scratch_transformer.kit.resolve.call.plan import CannotCall
from scratch_transformer.kit.resolve.candidate import Resolved
from scratch_transformer.kit.resolve.trial import NOTHING, Score


@dataclass
class Outcome:
    """candidate: None if it could not be built or called; then problem says why, and error is what was raised.

    stage: "built" (its constructor), "called" (its forward), "done".
    """

    kind: Kind
    candidate: Resolved | None = None
    score: Score = (NOTHING, float("inf"))
    stage: str = "built"
    problem: str = ""
    error: BaseException | None = None
    notes: list[str] = field(default_factory=list)
    used: Mapping[str, Any] = field(default_factory=dict)
    """The settings that its constructor asked for."""
    asked: Mapping[str, Any] = field(default_factory=dict)
    """Those that it was built with, which the globals that it reads have to go on having."""
    unknown: list[str] = field(default_factory=list)
    """Required parameters of what stopped, of which nobody knows what they take."""
    made: Any = None
    """What was built, of what stops when it is called."""
    form: str = ""
    """Of its output's shape: "right", "wrong", or "narrow", with fewer features than its input, as of one head."""

    def beats(self, other: Outcome | None) -> bool:
        """Better explained; without an explanation, at least callable, or built; of two that stop, the first."""
        if other is None:
            return True
        if other.candidate is None:
            return self.candidate is not None or not other.problem or (self.stage, other.stage) == ("called", "built")
        if self.candidate is None:
            return False
        return (self.score[0], self.score[1] > 1e6) < (other.score[0], other.score[1] > 1e6)


def farther(first: BaseException | None, second: BaseException, made: Any) -> BaseException:
    """Of two errors that the same code raised, that which came farther in its forward; else the first."""
    return second if first is None or _reached(second, made) > _reached(first, made) else first


def _reached(error: BaseException, made: Any) -> int:
    """The line of forward at which it stopped; 0 if that is not known."""
    forward = getattr(type(made), "forward", made)
    code = getattr(forward, "__code__", None)
    return max((line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code is code), default=0)


def raised(what: str, error: BaseException | None) -> str:
    """What stopped, with which error, and on which line of the learner's."""
    if error is None:
        return f"{what} cannot be called"
    text = in_one_line(error, 240)
    if isinstance(error, CannotCall):
        return text
    said = f"{what} stops with {type(error).__name__}: {text}".removesuffix(": ") + _line(error)
    return f"{said}. {OF_IDS}" if _is_given_ids(error) else said


OF_IDS = (
    "It was given ids, and hands them to a linear layer, which takes vectors: nn.Embedding looks ids up. What takes "
    "one-hot vectors, or other numbers, is not judged."
)


def _is_given_ids(error: BaseException) -> bool:
    """Whether it happened in a linear layer that was given whole numbers."""
    frames = frames_of(error)
    given = [frame.f_locals.get("input") for frame in frames if frame.f_code is nn.Linear.forward.__code__]
    return bool(given) and isinstance(given[-1], Tensor) and given[-1].dtype == torch.int64


def _line(error: BaseException) -> str:
    """Where in the learner's code it happened: the innermost line that is neither the kit's nor a library's."""
    own = learners_places(error)
    own = [frame for frame in own if frame.line and not frame.filename.startswith(("<frozen", sys.base_prefix))]
    return f" ({Path(own[-1].filename).name}:{own[-1].lineno}: {(own[-1].line or '')[:80]})" if own else ""
