"""What a forward does where it is given nothing for what it need not be given."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import Session
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES

Detector = Callable[[Session, Hypothesis | None], Iterator[Finding]]


def stops_without_positions(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B26: right with its positions given, it counts them itself without, and then its shapes do not fit."""
    found = session.candidate.uncounted(**session.ran[0].probe.inputs) if best is not None else None
    if found is not None and isinstance(found[1], RuntimeError):
        text = " ".join(str(found[1]).split())[:160]
        yield Finding(MISTAKES["B26"], f"Without {found[0]}, as by default, it stops: {text}.", found[0])


DEFAULTS: tuple[tuple[tuple[str, ...], Detector], ...] = ((("B26",), stops_without_positions),)
