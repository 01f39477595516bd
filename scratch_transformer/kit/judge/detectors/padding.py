"""What is done with padding: by a function that makes a mask, with its rows; by a model's method, on another device;
behind the layers, in the mean over a sentence's tokens (A24).
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from scratch_transformer.kit.judge import elsewhere
from scratch_transformer.kit.judge.detectors.devices import of_calls
from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import ROUNDED, Session
from scratch_transformer.kit.judge.variants import call
from scratch_transformer.kit.kind import Finding, Inputs
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.attention import POOLED, ROWS_TOO


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


LONGER = 3
FIX = (
    "keep = (ids != pad).unsqueeze(-1); (x * keep).sum(1) / keep.sum(1) is the mean over the real tokens; or the first "
    "token alone, x[:, 0]."
)


def pooled_padding(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """A24: with more padding the layers give each word the same, and what is made of that for a sentence is another."""
    candidate, probe = session.candidate, session.ran[0].probe
    ids = probe.inputs.get("ids")
    if best is None or not candidate.ends_within or ids is None or not bool((ids == session.settings["pad"]).any()):
        return
    (words, made), (more, other) = (_both(session, inputs) for inputs in (probe.inputs, _longer(session, ids)))
    valid = (ids != session.settings["pad"]).unsqueeze(-1)
    is_same = _off((more[:, : ids.shape[1]] - words) * valid, words * valid) <= ROUNDED
    is_of_sentences = made.shape == other.shape and made.shape[0] == ids.shape[0] and made.is_floating_point()
    if is_same and is_of_sentences and (error := _off(other - made, made)) > ROUNDED:
        said = f"With {LONGER} more of padding, its layers give each word the same, and its output is off by"
        yield Finding(MISTAKES["A24"], f"{said} {100 * error:.2g} %.", POOLED, fix=FIX)


def _both(session: Session, inputs: Inputs) -> tuple[Tensor, Tensor]:
    """What its layers give, and what it makes of that."""
    words = call(session.candidate, inputs)
    return words, session.candidate.of_whole[-1].detach()


def _longer(session: Session, ids: Tensor) -> Inputs:
    """The same sentences with more padding, which is masked."""
    found = dict(session.ran[0].probe.inputs)
    found["ids"] = torch.nn.functional.pad(ids, (0, LONGER), value=session.settings["pad"])
    if isinstance(mask := found.get("mask"), Tensor):
        found["mask"] = torch.nn.functional.pad(mask, (0, LONGER), value=False)
    return found


def _off(difference: Tensor, of: Tensor) -> float:
    return float(difference.abs().max() / of.abs().max())


PADDING = ((("A11",), blocked_rows), (("B32",), on_the_cpu), (("A24",), pooled_padding))
