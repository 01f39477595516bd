"""A24 of a mask that is taken, and that neither a forward nor what it hands it to reads."""

from __future__ import annotations

import re
from collections.abc import Iterator

from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import Session
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.attention import UNREAD, UNREAD_OF_QUERIES

SAID_OTHERWISE = {"A22", "A24", "A27"}
"""What tells of masks that have no effect already."""
QUERIES = re.compile(r"(^|_)q(_|$|[A-Z])|(?i:quer(y|ies))|^q(pad|mask)")
"""In the name of a mask of what asks: its padding asks for nothing that anybody reads, and may ask all keys."""


def unread_masks(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """Of what agrees: such a mask is none of its inputs, as its kind has them. A25 tells of the future."""
    candidate = session.candidate
    if best is None or candidate.replaced or not candidate.masks_unread or SAID_OTHERWISE & {*best.ids}:
        return
    if "A25" in best.ids and candidate.is_causal_by_name:
        return
    of_queries = [name for name in candidate.masks_unread if QUERIES.search(name)]
    others = [name for name in candidate.masks_unread if name not in of_queries]
    for names, form in ((others, UNREAD), ([] if others else of_queries, UNREAD_OF_QUERIES)):
        if names:
            said = f"Whatever it is given as its {' and its '.join(names)}, it gives the same numbers."
            yield Finding(MISTAKES["A24"], said, form)


UNREAD_MASKS = ((("A24",), unread_masks),)
