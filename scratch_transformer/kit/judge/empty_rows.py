"""A11 of what is more than one attention: a query that may attend to nothing gets NaN, which goes on to all words.

Where padding's rows are blocked too, with -∞, they are NaN behind the first attention. In the next their keys have no
weight, and their values are NaN all the same: 0 · NaN. No recipe equals NaN, so it is judged with numbers in its place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from scratch_transformer.kit.kind import Candidate, Diagnosis, Finding
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.attention import SPREADS

BY_INFINITY = ("A4", "filled with +inf")
"""What is named where outputs are NaN as soon as something is blocked."""


def without_nan(
    diagnosis: Diagnosis, candidate: Candidate, judged: Callable[[Candidate], Diagnosis]
) -> Diagnosis | None:
    """What is found with numbers in the place of NaN; None where that explains nothing, or NaN is not all.

    What is wrong then too may be why a query has no key, and is told alone.
    """
    if math.isfinite(diagnosis.error) or diagnosis.verdict not in ("mistake", "unknown mismatch"):
        return None
    other = None if _has_wrong_numbers(diagnosis) else candidate.with_finite_rows()
    again = judged(other) if other is not None else None
    if again is None or not again.is_explained or again.unexplained:
        return None
    if _has_wrong_numbers(again):
        return replace(again, error=diagnosis.error, ordinary=None)
    given = f"With {diagnosis.probe}" if diagnosis.probe else "Whatever it is given,"
    said = f"{given} there is NaN in the outputs of words; with numbers in the rows of padding there is none."
    found = Finding(MISTAKES["A11"], said, SPREADS, explains=True)
    findings = (found, *(f for f in again.findings if f.mistake.id != "A11"))
    return replace(again, verdict="mistake", error=diagnosis.error, ordinary=None, findings=findings)


def _has_wrong_numbers(diagnosis: Diagnosis) -> bool:
    """Whether a mistake is named that says what they are."""
    found = [f for f in diagnosis.findings if f.severity == "mistake" and (f.mistake.id, f.form) != BY_INFINITY]
    return any(finding.mistake.changes for finding in found)
