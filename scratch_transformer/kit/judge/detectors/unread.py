"""A24 of a mask that is taken, and that neither a forward nor what it hands it to reads."""

from __future__ import annotations

from collections.abc import Iterator

from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import Session
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.attention import UNREAD

SAID_OTHERWISE = {"A22", "A24", "A27"}
"""What tells of masks that have no effect already."""


def unread_masks(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """Of what agrees: such a mask is none of its inputs, as its kind has them. A25 tells of the future."""
    candidate = session.candidate
    if best is None or candidate.replaced or not candidate.masks_unread or SAID_OTHERWISE & {*best.ids}:
        return
    if "A25" not in best.ids or not candidate.is_causal_by_name:
        names = " and its ".join(candidate.masks_unread)
        said = f"Whatever it is given as its {names}, it gives the same numbers."
        yield Finding(MISTAKES["A24"], said, UNREAD)


UNREAD_MASKS = ((("A24",), unread_masks),)
