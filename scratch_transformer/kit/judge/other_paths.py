"""What attention computes where a flag chooses another way, as torch's fused one: both are to give the same numbers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from scratch_transformer.kit.definitions import namespace_of, parameters_of
from scratch_transformer.kit.judge.branches import flags_of
from scratch_transformer.kit.judge.diagnose import as_given
from scratch_transformer.kit.judge.search import Known
from scratch_transformer.kit.judge.session import ROUNDED, Session, distance
from scratch_transformer.kit.kind import Candidate, Diagnosis, Finding

ADDED = "A16"
SECONDS = 1.0
"""Of computing, for the search for what explains another way."""
UNKNOWN = "With {} it gives other numbers, for an unknown reason."
APART = "With {}, it takes masks with {}. Given such here, {}"


def with_other_paths(candidate: Candidate, diagnosis: Diagnosis, parts: Known = ()) -> Diagnosis:
    """The diagnosis of attention, with what is wrong in the ways that its flags choose as they are not now."""
    if not diagnosis.kind.endswith("Attention") or diagnosis.unexplained or not diagnosis.is_explained:
        return diagnosis
    for flag in flags_of(candidate.definition):
        diagnosis = _with_one(candidate, diagnosis, flag, parts)
    return diagnosis


def _with_one(candidate: Candidate, diagnosis: Diagnosis, flag: str, parts: Known) -> Diagnosis:
    here = Session(candidate)
    with _turned(candidate, flag) as (other, value):
        if other is None or not _differ(here, Session(other)):
            return diagnosis
        again = as_given(other, parts, seconds=SECONDS)
        fits = [of for of, one in other.with_other_masks().items() if _is_right(one, diagnosis)]
    of_masks = candidate.with_other_masks()
    if any(_is_right(of_masks[of], diagnosis) for of in fits):
        return diagnosis  # both take such masks
    for polarity in fits:  # a mask that is added where another way fills by it: one of both is wrong
        own = [f for f in as_given(of_masks[polarity], parts, seconds=SECONDS).findings if f.mistake.id == ADDED]
        said = [replace(f, evidence=APART.format(f"{flag} = {value}", polarity, f.evidence)) for f in own]
        if own:
            return _with(diagnosis, said, f"{flag} = {not value}")
    more = [f for f in again.findings if f.severity == "mistake" and f.mistake.id not in diagnosis.ids]
    if not more and not again.is_explained:
        return replace(diagnosis, limits=(*diagnosis.limits, UNKNOWN.format(f"{flag} = {value}")))
    return _with(diagnosis, more, f"{flag} = {value}")


@contextlib.contextmanager
def _turned(candidate: Candidate, flag: str) -> Iterator[tuple[Candidate | None, bool]]:
    """The candidate with the other value of a flag, and which that is; None if its value is not known."""
    name = flag.removeprefix("self.")
    function = candidate.module.forward if candidate.module is not None else candidate.definition
    default = next((p.default for p in parameters_of(function) if p.name == flag), None)
    parts = candidate.module.modules() if candidate.module is not None else ()
    own = [vars(part) for part in parts if type(part) is candidate.definition]
    holders: list[dict[str, Any]] = own if name != flag else [namespace_of(candidate.definition)]
    holders = [holder for holder in holders if isinstance(holder.get(name), bool)]
    if isinstance(default, bool):
        yield candidate.with_flag(flag, not default), not default
        return
    value = not holders[0][name] if holders else True
    for holder in holders:
        holder[name] = value
    try:
        yield candidate if holders else None, value
    finally:
        for holder in holders:
            holder[name] = not value


def _differ(here: Session, there: Session) -> bool:
    """Whether they give other numbers for any of the inputs that both can be given."""
    given = {result.probe.name: result.output for result in there.ran}
    both = [result for result in here.ran if result.probe.name in given]
    return any(distance(given[one.probe.name], one.output, one.probe) > ROUNDED for one in both)


def _is_right(candidate: Candidate, diagnosis: Diagnosis) -> bool:
    session = Session(candidate)
    return bool(session.ran) and session.error(diagnosis.recipe) <= ROUNDED


def _with(diagnosis: Diagnosis, more: Iterable[Finding], path: str) -> Diagnosis:
    found = [replace(finding, path=path) for finding in more]
    verdict = "mistake" if found else diagnosis.verdict
    return replace(diagnosis, findings=(*found, *diagnosis.findings), verdict=verdict)
