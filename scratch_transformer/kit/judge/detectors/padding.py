"""What a function that makes a mask does with the rows of padding, and a model's method that does on another device."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from scratch_transformer.kit.judge import elsewhere
from scratch_transformer.kit.judge.detectors.devices import of_calls
from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import Session
from scratch_transformer.kit.judge.variants import call
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.attention import ROWS_TOO


def blocked_rows(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """A11: the mask hides every key from the queries that are padding."""
    if best is not None and best.recipe.padding == "both":
        yield Finding(MISTAKES["A11"], "Where the query is padding, it blocks every key.", ROWS_TOO)


def on_the_cpu(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B32: a method of a model, which is given ids where the model is, joins a tensor of the CPU to them.

    A function may be for batches that are not moved yet.
    """
    owner = getattr(session.candidate.definition, "of_class", object)
    if not issubclass(owner, nn.Module) or not session.ran:
        return
    inputs = session.ran[0].probe.inputs
    stopping, _ = elsewhere.watched(lambda moved: call(session.candidate, moved), None, inputs, {})
    if stopping:
        yield from of_calls(stopping)


PADDING = ((("A11",), blocked_rows), (("B32",), on_the_cpu))
