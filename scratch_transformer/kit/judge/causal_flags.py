"""A flag of forward that is to hide the future, is_causal=False: what it hides where it is True, without a mask."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from torch import Tensor

from scratch_transformer.kit.judge.changes import FILLS
from scratch_transformer.kit.judge.session import ROUNDED, Session, distance
from scratch_transformer.kit.kind import OF_FLAG, Candidate, Diagnosis, Finding, Probe
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.attention import BESIDE_A_MASK
from scratch_transformer.kit.recipe import Recipe

WRONG = ("A25", "A5", "A6")
"""Hides nothing, the past, or one token too many or too few."""


def with_flag(candidate: Candidate, diagnosis: Diagnosis) -> Diagnosis:
    """The diagnosis of attention, with what its flag does wrong; and no longer with the limit that nobody set it."""
    flag = candidate.causal_flag
    if not flag or not diagnosis.kind.endswith("Attention") or diagnosis.unexplained or not diagnosis.is_explained:
        return diagnosis
    session = Session(candidate)
    probe = next((one for one in (*session.probes, *session.left_out) if one.name == "causal"), None)
    if probe is None:
        return diagnosis
    try:
        output = candidate.told_causal(**{**probe.inputs, "mask": None})
    except Exception:  # it may be refused without a mask, as by torch.nn
        return diagnosis
    found = next(_agreeing(session, diagnosis.recipe, probe, output), None)
    unset = (f"It was not given its {flag}.", OF_FLAG.format(flag))
    limits = tuple(limit for limit in diagnosis.limits if limit not in unset)
    if found is None:
        said = f"With {flag}=True it gives other numbers than with a mask that hides the future, for an unknown reason."
        return replace(diagnosis, limits=(*limits, said))
    id, form = found
    if not id:
        return replace(diagnosis, limits=limits)
    is_hint = id == "A25" and flag == "is_causal" and candidate.accepts(probe.inputs)
    form = BESIDE_A_MASK if is_hint else f"{form}, with {flag}=True".removeprefix(", ")
    alone = "" if OF_FLAG.format(flag) in diagnosis.limits else " and no mask"
    finding = Finding(MISTAKES[id], f"With {flag}=True{alone}, {SAID[id]}.", form)
    verdict = "mistake" if finding.severity == "mistake" else diagnosis.verdict
    return replace(diagnosis, findings=(finding, *diagnosis.findings), limits=limits, verdict=verdict)


SAID = {
    "A25": "its output is what it is without: every token attends to all",
    "A5": "its tokens attend to what comes after them",
    "A6": "the diagonal of its mask is another",
}


def _agreeing(session: Session, recipe: Recipe, probe: Probe, output: Tensor | None) -> Iterator[tuple[str, str]]:
    """What the flag does: ("", "") if it is right, else a mistake and its form."""
    ways: list[tuple[str, str, dict[str, Any]]] = [("", "", {})]
    ways += [(id, form, dict(entries)) for id in WRONG for form, entries in MISTAKES[id].changes.items()]
    for id, form, entries in ways:
        for fill in dict.fromkeys((recipe.fill, *FILLS)):
            other = recipe.with_({**entries, "fill": fill})
            if distance(output, session.variant(other, probe), probe) <= ROUNDED:
                yield id, form
