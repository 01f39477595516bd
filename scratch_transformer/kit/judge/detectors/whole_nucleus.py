"""S2 of what keeps too few ids where p is 1, which no sum of probabilities exceeds: (sums > p).argmax() is 0 then."""

from __future__ import annotations

from collections.abc import Iterator

from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import ROUNDED, Session, distance
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.optimizing import DOES_LEAVE_ONE, NONE_EXCEEDS

SEEN = 1e-6


def of_all_ids(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """Of what is right with a p below 1."""
    told = getattr(session.candidate.definition, "told", None)
    if told is None or best is None or "S2" in best.ids or session.settings.get("top_p") in (None, 1.0):
        return
    again, whole = told(top_p=1.0), session.kind.build({**session.settings, "top_p": 1.0}, best.recipe)
    for result in session.ran:
        logits = result.probe.inputs["logits"]
        given, expected = again(logits.clone()).double(), whole(logits).double()
        kept, there = int((given > 0).sum()), int((expected > 0).sum())
        if kept < there and distance(given, expected, result.probe) > max(ROUNDED, SEEN):
            said = f"With p = 1 it keeps {kept} of {there} ids that may be drawn."
            yield Finding(MISTAKES["S2"], said, NONE_EXCEEDS, does=DOES_LEAVE_ONE)
            return


WHOLE_NUCLEUS = ((("S2",), of_all_ids),)
