"""K1, of a cache that joins what it keeps with what is new along another axis than that of the tokens."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Collection
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

from scratch_transformer.kit.judge.frames import DONE_AT, line_now
from scratch_transformer.kit.judge.session import ROUNDED, Session, distance
from scratch_transformer.kit.kind import STEPS, Probe, Steps

ALONG = "joined along another axis than that of the tokens"
JOINS = ("cat", "concat", "concatenate")
AXES = range(4)


class Joins(TorchFunctionMode):
    """At which lines of a learner's two tensors are joined; at all but some along this axis, whatever they say.

    axis: None, as they say.
    """

    def __init__(self, axis: int | None = None, but: Collection[str] = ()) -> None:
        super().__init__()
        self.axis, self.but = axis, {"", *but}
        self.seen: set[str] = set()
        self.changed: list[tuple[str, int]] = []
        """The lines that say another axis, and which."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = dict(zip(("tensors", "dim"), args, strict=False)) | (kwargs or {})
        tensors, said = given.get("tensors", ()), given.get("dim", 0)
        if getattr(func, "__name__", "") not in JOINS or len(tensors) != 2 or {*given} - {"tensors", "dim"}:
            return func(*args, **(kwargs or {}))
        line, dim = line_now(), tensors[0].dim()
        self.seen.add(line)
        if self.axis is None or line in self.but or self.axis in (said, said + dim) or self.axis >= dim:
            return func(tensors, said)
        self.changed.append((line, said))
        return func(tensors, self.axis)


def otherwise(session: Session, probe: Probe, expected: Tensor, pieces: tuple[tuple[int, ...], ...]) -> str:
    """What is said of a cache that is right where it joins along another axis; "" of any other."""
    for chunks, steps in itertools.product(pieces, STEPS):
        first = _lines(session, probe, chunks[:1], steps)  # when nothing is kept yet
        for axis in AXES if _lines(session, probe, chunks, steps) - first else ():
            joins, output = Joins(axis, first), None
            with contextlib.suppress(Exception), joins:  # most axes do not fit
                output = session.candidate.stepwise(probe.inputs, chunks, steps)
            if joins.changed and output is not None and distance(output, expected, probe) <= ROUNDED:
                line, said = joins.changed[0]
                return (
                    f"It joins what it keeps with what is new along dimension {said}, and the tokens are along {axis}: "
                    f"joined there, it gives what one call gives. {DONE_AT}{line}"
                )
    return ""


def _lines(session: Session, probe: Probe, chunks: tuple[int, ...], steps: Steps) -> set[str]:
    """Those that join two tensors, until all pieces are done, or one stops."""
    joins = Joins()
    with contextlib.suppress(Exception), joins:
        session.candidate.stepwise(probe.inputs, chunks, steps)
    return joins.seen
