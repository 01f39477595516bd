"""What was found out about a whole, as it is said with its parts in view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scratch_transformer.kit.kind import Diagnosis


def as_it_is_asked(diagnosis: Diagnosis) -> Diagnosis:
    """Of a table that is asked for the rows 1, 2, 3, …, 0 being that of padding: it does not count (P9)."""
    findings = tuple(f for f in diagnosis.findings if f.mistake.id != "P9")
    is_right = diagnosis.verdict == "harmless deviation" and all(f.severity == "note" for f in findings)
    return replace(diagnosis, findings=findings, verdict="matches the builtin" if is_right else diagnosis.verdict)


def as_ignored(diagnosis: Diagnosis, within: Sequence[Diagnosis]) -> Diagnosis:
    """No causal mask (A25), in a whole whose attention ignores all masks (A24), is that: the mask may well be made."""
    of_parts = [f for part in within for f in part.findings if f.severity == "mistake" and not f.form]
    ignored = next((f.mistake for f in of_parts if f.mistake.id == "A24"), None)
    if ignored is None or "A24" in diagnosis.ids:
        return diagnosis
    findings = [replace(f, mistake=ignored, form="") if f.mistake.id == "A25" else f for f in diagnosis.findings]
    return replace(diagnosis, findings=tuple(findings))
