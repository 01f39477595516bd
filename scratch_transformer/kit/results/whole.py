"""What was found out about a whole, with its parts in view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from scratch_transformer.kit.discover.target import Source
from scratch_transformer.kit.judge.detectors import inventory
from scratch_transformer.kit.kind import Diagnosis, Verdict
from scratch_transformer.kit.resolve.call.plan import FROM_ONE
from scratch_transformer.kit.resolve.candidate import Resolved
from scratch_transformer.kit.resolve.library.library import Library
from scratch_transformer.kit.results.inherited import of_parts
from scratch_transformer.kit.results.parts import Parts, of_part, parts_of


@dataclass(frozen=True)
class Whole:
    """A class or function, its file, what it was resolved to, and what was found out about it and about its parts."""

    value: Any
    source: Source
    one: Resolved | None
    diagnosis: Diagnosis
    parts: Parts

    @property
    def made(self) -> Any:
        return self.one.made if self.one is not None else None

    @property
    def is_unknown(self) -> bool:
        return self.diagnosis.verdict == "unknown mismatch"


def whole_of(value: Any, source: Source, one: Resolved | None, diagnosis: Diagnosis, library: Library) -> Whole:
    """diagnosis: of itself, as if it had no parts."""
    parts = parts_of(value, one, diagnosis, library)
    diagnosis = _as_it_is_asked(diagnosis) if is_asked_from_one(one) else diagnosis
    diagnosis = _with_those_elsewhere(_as_ignored(diagnosis, parts.within), parts, source, library)
    return Whole(value, source, one, diagnosis, parts)


def is_asked_from_one(one: Resolved | None) -> bool:
    """Whether it is a table that is asked for the rows 1, 2, 3, …"""
    return one is not None and one.plan.order == FROM_ONE


def _as_it_is_asked(diagnosis: Diagnosis) -> Diagnosis:
    """Of a table that is asked for the rows 1, 2, 3, …, 0 being that of padding: it does not count (P9)."""
    findings = tuple(f for f in diagnosis.findings if f.mistake.id != "P9")
    is_right = diagnosis.verdict == "harmless deviation" and all(f.severity == "note" for f in findings)
    return replace(diagnosis, findings=findings, verdict="matches the builtin" if is_right else diagnosis.verdict)


def _as_ignored(diagnosis: Diagnosis, within: Sequence[Diagnosis]) -> Diagnosis:
    """No causal mask (A25), in a whole whose attention ignores all masks (A24), is that: the mask may well be made."""
    severe = [f for part in within for f in part.findings if f.severity == "mistake" and not f.form]
    ignored = next((f.mistake for f in severe if f.mistake.id == "A24"), None)
    if ignored is None or "A24" in diagnosis.ids:
        return diagnosis
    findings = [replace(f, mistake=ignored, form="") if f.mistake.id == "A25" else f for f in diagnosis.findings]
    return replace(diagnosis, findings=tuple(findings))


def _with_those_elsewhere(diagnosis: Diagnosis, parts: Parts, source: Source, library: Library) -> Diagnosis:
    """With the mistakes of parts in other files that no numbers of the whole show: what a norm starts with, dropout.

    And what is harmless, which nothing else tells of. Not where the file of the whole fills the norms itself.
    """
    if diagnosis.verdict in ("unknown mismatch", "crashed"):
        return diagnosis
    fills = inventory.FILLS_NORMS.search(source.text)
    known = {*diagnosis.ids, *of_parts(diagnosis, parts.within), *({"LN13"} if fills else ())}
    found = [f for part in parts.silent if not part.unexplained for f in part.findings]
    own = {f.mistake.id: f for f in found if not f.mistake.changes and f.mistake.id not in known}
    severe, harmless = (
        [of_part(f, library) for f in own.values() if f.severity == one] for one in ("mistake", "harmless")
    )
    costs_nothing = bool(harmless) and diagnosis.verdict == "matches the builtin"
    verdict: Verdict = "mistake" if severe else "harmless deviation" if costs_nothing else diagnosis.verdict
    return replace(diagnosis, findings=(*severe, *diagnosis.findings, *harmless), verdict=verdict)
