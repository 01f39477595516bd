"""What a function that makes a mask does with the rows of padding."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import Session
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.attention import ROWS_TOO

Detector = Callable[[Session, Hypothesis | None], Iterator[Finding]]


def blocked_rows(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """A11: the mask hides every key from the queries that are padding."""
    if best is not None and best.recipe.padding == "both":
        yield Finding(MISTAKES["A11"], "Where the query is padding, it blocks every key.", ROWS_TOO)


PADDING: tuple[tuple[tuple[str, ...], Detector], ...] = ((("A11",), blocked_rows),)
