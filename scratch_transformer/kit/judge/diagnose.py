"""What is right and wrong about a candidate: the reference, its variants and pairs of them, on probes.

    diagnosis = diagnose(candidate)
    print(diagnosis.verdict, diagnosis.ids)

A mistake is named only if the reference with this mistake put in reproduces the candidate's numbers to rounding; what
several mistakes explain alike is reported as such; what none explains stays unexplained.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from scratch_transformer.conformance.switches import exact
from scratch_transformer.kit import clock
from scratch_transformer.kit.definitions import file_of, text_of_file
from scratch_transformer.kit.judge import by_hand
from scratch_transformer.kit.judge.designs import design_notes, of_session, words_of
from scratch_transformer.kit.judge.detectors import detected, infinity
from scratch_transformer.kit.judge.detectors.construction import text_of
from scratch_transformer.kit.judge.detectors.future import GIVEN
from scratch_transformer.kit.judge.detectors.gradients import has_unused_norms
from scratch_transformer.kit.judge.detectors.settings import form_of_eps
from scratch_transformer.kit.judge.divergence import first_divergence
from scratch_transformer.kit.judge.empty_rows import without_nan
from scratch_transformer.kit.judge.evidence import evidence
from scratch_transformer.kit.judge.extras import from_extras
from scratch_transformer.kit.judge.lengths import other_when_long
from scratch_transformer.kit.judge.places import THREE, Change
from scratch_transformer.kit.judge.search import PADDING_LOST, Hypothesis, Known, Match, find
from scratch_transformer.kit.judge.session import EXACT, ROUNDED, Session, distance, says_nothing, shapes
from scratch_transformer.kit.judge.shifted import shifts_its_target
from scratch_transformer.kit.judge.stops import miscut
from scratch_transformer.kit.judge.stops.crashes import crash_finding
from scratch_transformer.kit.judge.variants import call
from scratch_transformer.kit.judge.written import is_scaled_beside, right_width
from scratch_transformer.kit.kind import NO_MASK, NOT_GIVEN, ONE_LENGTH, PARTS, Candidate, Diagnosis, Finding, Verdict
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.attention import (
    AS_IN_T5,
    BEHIND_THE_PRESENT,
    DOES_BEHIND_THE_PRESENT,
    LENT,
    NEAR_ZERO,
    NOT_ASKED,
    OF_KEYS,
    ONE_HEAD,
    ONE_TURNED,
    OUTSIDE,
    TARGET_ONLY,
    UNTOLD,
    WRITTEN_IN,
)
from scratch_transformer.kit.mistakes.blocks import IN_BOTH, MADE_FIRST, MIXED_NORMS, UNUSED_NORMS
from scratch_transformer.kit.mistakes.embedding import ATTENDS, ATTENTION_ALONG_IT, BATCH_FIRST, ELSEWHERE
from scratch_transformer.kit.mistakes.normalization import NO_EPS, OF_A_SIZE, OF_PLACES, ZERO_BY_ZERO
from scratch_transformer.kit.recipe import RIGHT, Recipe

ORDER = list(MISTAKES)
"""Of mistakes, in the catalogue: however they were found, they are named in this order."""
T5 = re.compile(r"^[mM]?[tT]5")
"""In the name of a class: Raffel et al. 2020 do not scale scores."""
DIAGONAL = ("A6", "hides the diagonal")
OF_LENT = (("A5", "sees the future only"), ("A25", ""), ("A25", "nor one for the padding"))
"""What is not said where the reference stands in for the part that may make the mask, or read it otherwise."""
ATTEND = ("Attention", "Layer", "Block", "Encoder", "Decoder", "Model", "Transformer")
"""How the names of kinds end that attend."""
SEVERITIES = ("mistake", "paper", "harmless", "note")
STOPS = "B26"
"""What it stops with hides the rest, so it is told first."""
WORDS: dict[tuple[str, Any], str] = {
    ("norm_order", "pre"): "pre-norm",
    ("norm_order", "post"): "post-norm",
    ("final_norm", True): "final norm",
    ("final_norm", False): "no final norm",
}
UNMIXED = "It has no output projection: its heads are joined, and not mixed by a matrix W_o as in section 3.2.2."
VERDICTS: dict[str, Verdict] = {
    "mistake": "mistake",
    "paper": "matches the paper, not the builtin",
    "harmless": "harmless deviation",
}


def diagnose(candidate: Candidate, parts: Known = (), seed: int = 0, seconds: float | None = None) -> Diagnosis:
    """Find out what a candidate computes.

    parts: what was found out about its parts, or ids of mistakes in them; they are tried first.
    seconds: of computing, after which no more mistakes are tried.
    """
    diagnosis = as_given(candidate, parts, seed, seconds)
    if (found := without_nan(diagnosis, candidate, lambda other: as_given(other, parts, seed, seconds))) is not None:
        return found
    ways = (("A16", candidate.with_added_masks), ("A5", candidate.with_turned_mask))
    id, other = next(((id, made) for id, way in ways if id in diagnosis.ids and (made := way())), ("", None))
    if other is None:
        return diagnosis
    again = as_given(other, parts, seed, seconds)
    is_known = again.is_explained and not again.unexplained
    return again if is_known and id not in again.ids else diagnosis  # its mask was meant in another way


def as_given(candidate: Candidate, parts: Known = (), seed: int = 0, seconds: float | None = None) -> Diagnosis:
    """The same, its masks being meant as it is given them."""
    with exact():
        try:
            session = Session(candidate, seed)
        except Exception as error:  # the learner's code may raise anything
            return _crashed(candidate, error)
        if not session.ran:
            return _crashed(candidate, session.crashes[0].error if session.crashes else None)
        if all(says_nothing(result.output) for result in session.ran if result.output is not None):
            return _without_numbers(session)
        return _diagnosed(session, parts, seconds)


def _without_numbers(session: Session) -> Diagnosis:
    """No mistake can be told from NaN, which equals nothing, not even itself; only the line that makes it is one."""
    candidate, kind = session.candidate, session.kind
    notes = (*candidate.notes, "Its outputs are NaN or infinite, all of them, whatever it is given.")
    findings = tuple(infinity.zero_times_infinity(session, None)) if "A4" in kind.ids else ()
    verdict: Verdict = "mistake" if findings else "unknown mismatch"
    return Diagnosis(kind.name, verdict, float("inf"), kind.builtin or "the reference", findings, notes=notes)


def _crashed(candidate: Candidate, error: Exception | None) -> Diagnosis:
    finding = None if error is None else crash_finding(error)
    findings = () if finding is None else (finding,)
    said = "It cannot be given any of the inputs." if error is None else f"{type(error).__name__}: {_first_line(error)}"
    notes = (*candidate.notes, said)
    builtin = candidate.kind.builtin or "the reference"
    return Diagnosis(candidate.kind.name, "crashed", float("inf"), builtin, findings, notes=notes)


def _diagnosed(session: Session, parts: Known, seconds: float | None) -> Diagnosis:
    kind, candidate = session.kind, session.candidate
    match = find(session, parts, seconds) if session.may_be_given(of_session(session)) else Match()
    best = match.hypotheses[0] if match.hypotheses else None
    design = _design(session, best)
    recipe = best.recipe if best else design
    findings = [*_named(session, best, match, design), *detected(session, best)]
    if best is not None:
        findings += [*design_notes(session, recipe, best.design), *from_extras(session, best)]
    findings += [f for r in session.crashes if r.error is not None and (f := crash_finding(r.error)) is not None]
    findings += [cut] if (cut := miscut.too_far(candidate.stopped)) is not None else []
    findings = _sorted(findings)
    error, worst = session.worst(design)
    ordinary, usual = session.worst(design, ordinary=True)
    if best is not None and best.changes and all(_is_note(session, change, best) for change in best.changes):
        error, usual = min(error, match.error), None  # no builtin is set up in this way
    verdict = _verdict(best, findings, error, session)
    unsteady = _unsteady(session) or other_when_long(session, best.recipe) if best and verdict != "mistake" else ""
    if unsteady:
        verdict = "unknown mismatch"
    verdict = "unknown mismatch" if candidate.besides_layers and verdict != "mistake" else verdict
    unexplained = best is None and verdict == "mistake" and not any(finding.explains for finding in findings)
    unexplained |= bool(candidate.besides_layers) and verdict == "mistake"
    shifted = shifts_its_target(session) if best is None else ""
    return Diagnosis(
        kind=kind.name,
        verdict=verdict,
        error=error,
        against=kind.builtin or "the reference",
        findings=tuple(findings),
        alternatives=tuple(h.ids for h in match.hypotheses[1:]),
        design=_words(session, best) if best else "",
        divergence=first_divergence(session, design) if unexplained or verdict == "unknown mismatch" else "",
        probe=worst.probe.shows if worst else "",
        notes=(*candidate.notes, *_notes(match), *by_hand.said(session, best)),
        limits=(
            *(limit for limit in candidate.limits if not _is_told(limit, findings)),
            *([unsteady] if unsteady else ()),
            *([shifted] if shifted else ()),
            *_limits(session, findings),
            *(_does_without(session) if best else _scores_no_words(session)),
            *(_has_besides(session) if best and not any(f.form == OF_PLACES for f in findings) else ()),
        ),
        replaced=tuple(candidate.replaced),
        recipe=recipe,
        ordinary=ordinary if usual is not None and ordinary != error else None,
        unexplained=unexplained,
    )


def _words(session: Session, best: Hypothesis) -> str:
    """A design in words: "logits, post-norm", and what is otherwise in the encoder or the decoder."""
    whole = best.design if best.sides else words_of(session.kind, best.design, best.recipe, best.changed)
    entries = ((side, entry) for side, own in best.sides for entry in own)
    of_sides = (f"{side}: {WORDS[entry]}" for side, entry in entries if entry in WORDS)
    return ", ".join((whole, *of_sides))


NEAREST = 1.0
"""Seconds of computing, after which the nearest design so far will do: nothing explains it anyway."""


def _design(session: Session, best: Hypothesis | None) -> Recipe:
    """The right recipe that a candidate is measured against: its own design, else the nearest one."""
    designs = session.kind.designs
    if best is not None:
        notes = [change for change in best.changes if _is_note(session, change, best)]
        of_notes = {name: value for change in notes for name, value in change.entries}
        sides = {"parts": best.sides} if best.sides else {}
        return RIGHT.with_({**designs[best.design], **of_notes, **sides})  # another activation is another design
    nearest, least, until = RIGHT, float("inf"), clock.now() + NEAREST
    for _, changes in of_session(session) or designs.items():
        if clock.now() > until:
            break
        recipe = RIGHT.with_(changes)
        error = session.error(recipe, stop_above=least)
        if error < least or nearest is RIGHT:
            nearest, least = recipe, error
    return nearest


def _named(session: Session, best: Hypothesis | None, match: Match, design: Recipe) -> Iterator[Finding]:
    together = sorted(best.changes, key=lambda change: ORDER.index(change.id)) if best else []
    named = [(change, _called(session, best, change, match.twins.get(change.id, ()))) for change in together]
    ids = [finding.mistake.id for change, finding in named if not _is_note(session, change, best)]
    for change, finding in named:
        said = finding.evidence or evidence(session, change, design, ids, finding.mistake.id)
        yield replace(finding, evidence=said)


def _called(session: Session, best: Hypothesis | None, change: Change, twins: tuple[str, ...]) -> Finding:
    """The mistake that a change is in this code, which may have another name; without its numbers."""
    entries = dict(change.entries)
    if _is_of_target(session, change):
        return Finding(MISTAKES["A24"], "", TARGET_ONLY, entries)
    if (change.id, change.form) == ("A24", "") and _has_no_mask(session):
        form = "" if session.kind.name == "ScaledDotProductAttention" else "nor one for the padding"
        return Finding(MISTAKES["A25"], "", LENT if _is_lent_what_attends(session) else form, entries)
    if change.id in ("A24", "A25") and not change.form and _masks_keys_alone(session):
        return Finding(MISTAKES["A25"], "", "", entries, fix=OF_KEYS)
    if (change.id, change.form) == DIAGONAL and best is not None and _is_read_otherwise(session, best):
        return Finding(MISTAKES["A5"], "", "sees itself and the future", {"causal": "future and present"})
    if (change.id, change.form) == ("P4", "") and session.candidate.goes_along_the_first:
        return Finding(MISTAKES["P4"], "", ATTENTION_ALONG_IT, entries, does=ATTENDS, fix=BATCH_FIRST)
    if change.id == "B16" and best is not None and best.recipe.gated:
        return Finding(MISTAKES["G4"], "", "", entries)  # the same numbers, in other words
    if change.id == "B1" and change.part:
        said = "Every sublayer is right; torch.nn has one order for all sublayers of a layer."
        return Finding(MISTAKES["B1"], said, MIXED_NORMS, entries, part=change.part)
    form = _form(session, change, best)
    fix = MADE_FIRST if change.id == "B14" and _has_no_norm(session) else ""
    twins = twins if form == change.form else ()
    does = DOES_BEHIND_THE_PRESENT if form == BEHIND_THE_PRESENT else ""
    return Finding(MISTAKES[change.id], "", form, twins=twins, part=change.part, does=does, fix=fix)


def _masks_keys_alone(session: Session) -> bool:
    """Whether its mask has no place for what hides the future, and its cause is no part that the reference lends."""
    is_one = "A25" in session.kind.ids and not _is_lent_what_attends(session)
    return is_one and session.candidate.masks_keys_alone(**session.ran[0].probe.inputs)


def _has_no_norm(session: Session) -> bool:
    """Whether nothing in it is a norm, by the name of its class or of what holds it."""
    module = session.candidate.module
    named = module.named_modules() if module is not None else ()
    norms = any("norm" in f"{type(part).__name__} {path}".lower() for path, part in named)
    return not norms and not session.candidate.has_bare_norms


def _is_of_target(session: Session, change: Change) -> bool:
    """Padding beside a causal mask cannot get lost where nobody looked for it."""
    return (change.id, change.form) == PADDING_LOST and not session.candidate.looks_for_padding


def _has_no_mask(session: Session) -> bool:
    """Whether no mask is made or taken that could be ignored, in what writes."""
    return "A25" in session.kind.ids and not session.candidate.speaks_of_padding


def _is_read_otherwise(session: Session, best: Hypothesis) -> bool:
    """Whether a triangle with its diagonal, in which either value may block, is applied as the other one."""
    return session.candidate.blocked_is not in ("", best.recipe.blocked_is)


def _is_note(session: Session, change: Change, best: Hypothesis | None = None) -> bool:
    return _called(session, best, change, ()).severity == "note"


def _said_of_lent(session: Session) -> tuple[tuple[str, str], ...]:
    """What is not said where the reference attends; that it ignores a mask neither, where none is known to hand it."""
    return (*OF_LENT, ("A24", "")) if NO_MASK in session.candidate.limits else OF_LENT


def _form(session: Session, change: Change, best: Hypothesis | None) -> str:
    """What takes a mask, or is not called a decoder, need not hide the future; norms that are made are to be used."""
    if _is_lent_what_attends(session) and (change.id, change.form) in _said_of_lent(session):
        return LENT
    if change.id == "B1" and change.part:
        return MIXED_NORMS
    if change.id == "B3" and change.part:
        return ""  # no design has two orders
    if change.id == "B15" and has_unused_norms(session):
        return UNUSED_NORMS
    if change.id == "A24" and _may_have_no_padding(session) and not session.candidate.speaks_of_padding:
        return UNTOLD
    if change.id == "LN3" and change.form != OF_A_SIZE:
        if _divides_by_zero(session, dict(change.entries)):
            return ZERO_BY_ZERO if session.kind.name == "RMSNorm" else NO_EPS
        return form_of_eps(dict(change.entries).get("eps", 0.0), best.recipe.norm_kind if best else "norm", change.form)
    if _is_hidden_anyway(session, change, best):
        return BEHIND_THE_PRESENT
    if (change.id, change.form) == ("A1", "not scaled") and T5.search(type(session.candidate.module).__name__):
        return AS_IN_T5
    if (change.id, change.form) == ("A4", "") and _fills_with_little(
        session.candidate.text + text_of(session.candidate)
    ):
        return NEAR_ZERO
    if (change.id, change.form) == ("E2", "not scaled") and is_scaled_beside(session):
        return ELSEWHERE
    if change.id == "A1" and right_width(session):
        return WRITTEN_IN
    is_asked = change.id != "A25" or session.candidate.is_causal_by_name
    return change.form if is_asked else NOT_ASKED


INFINITE = re.compile(r"\binf(inity)?\b")


def _is_hidden_anyway(session: Session, change: Change, best: Hypothesis | None) -> bool:
    """Whether padding is only missed by a mask that hides the future too: behind a sentence it is future.

    Its own rows are blocked then. Filled with -∞ they are NaN, which the next layer spreads.
    """
    is_one = (change.id, change.form) == ("A7", "queries instead of keys") and session.kind.name == "TargetMask"
    is_causal = best is not None and not {"A5", "A6", "A25"} & {*best.ids}
    return is_one and is_causal and not INFINITE.search(text_of_file(file_of(session.candidate.definition)))


def _divides_by_zero(session: Session, entries: Mapping[str, Any]) -> bool:
    """Whether a norm without an ε gives NaN for a token whose features are all 0."""
    if entries.get("eps") != 0 or session.kind.name not in ("LayerNorm", "RMSNorm"):
        return False
    x = torch.zeros_like(session.ran[0].probe.inputs["x"])
    return bool(call(session.candidate, {"x": x}).isnan().any())


LITTLE = re.compile(r"(?i)masked_fill_?\([^\n]*(eps\b|tiny|\de-\d)")
TIMES_MASK = re.compile(r"(?i)\*=? *[\w.]*mask|mask\w*(\.\w+\([^\n]*\))? *\*|mul_?\([^\n]*mask")


def _fills_with_little(text: str) -> bool:
    """Whether scores are filled with a number near 0, and nothing is multiplied by a mask."""
    return LITTLE.search(text) is not None and TIMES_MASK.search(text) is None


def _may_have_no_padding(session: Session) -> bool:
    """Whether it reads a text, or vectors: there may be one at a time, or all of one length."""
    return session.kind.name == "TokenEncoder" or session.candidate.takes_vectors


def _is_lent_what_attends(session: Session) -> bool:
    """Whether the reference is in the place of a part that attends, as far as that is known."""
    if not session.candidate.replaced:
        return False
    parts = session.candidate.module.modules() if session.candidate.module is not None else ()
    lent = [kind for part in parts if (kind := getattr(type(part), "kind_name", ""))]
    return not lent or any(kind.endswith(ATTEND) for kind in lent)


def _verdict(best: Hypothesis | None, findings: Iterable[Finding], error: float, session: Session) -> Verdict:
    """error: against the builtin, which has the last word; the reference only explains deviations from it."""
    severities = {finding.severity for finding in findings}
    if "mistake" in severities:
        return "mistake"
    if best is None or _is_without_its_mask(session, findings):
        return "unknown mismatch"
    if session.stops:
        return "crashed"  # what agrees where it runs, and does not run with every mask, is not right
    departs = any(found.severity == "harmless" and found.form in found.mistake.changes for found in findings)
    for severity in ("harmless",) if departs else ("paper", "harmless"):  # other numbers are not the paper's
        if severity in severities:
            return VERDICTS[severity]
    return "matches the builtin" if error <= ROUNDED else "unknown mismatch"


def _is_without_its_mask(session: Session, findings: Iterable[Finding]) -> bool:
    """Whether it hides nothing of the future, as that is for the mask that it takes, and could not be given."""
    is_for_mask = any((found.mistake.id, found.form) == ("A25", NOT_ASKED) for found in findings)
    return is_for_mask and any(limit.startswith("It was not given its") for limit in session.candidate.limits)


def _unsteady(session: Session) -> str:
    """What is said of a mask that means something else where it has one row for all queries."""
    for result in session.ran:
        if result.output is None or not any("mask" in name for name in result.probe.inputs):
            continue
        try:
            again = session.candidate.narrow(**result.probe.inputs)
        except Exception:  # the learner's code may raise anything
            return ""
        if again is not None:
            differs = again.shape == result.output.shape and not says_nothing(again)
            differs = differs and distance(again, result.output, result.probe) > ROUNDED
            return f"With {result.probe.shows} in a mask of one row for all queries, it gives other numbers." * differs
    return ""


def in_both(first: Finding, second: Finding) -> Finding:
    """One mistake around two of three sublayers, as one."""
    entries = tuple(first.mistake.changes.get(first.form, first.entries).items())
    if not entries:
        return first
    form = IN_BOTH.format(*(PARTS[one.part].removesuffix(" sublayer") for one in (first, second)))
    form = f"{first.form}, {form}" if first.form else form
    return replace(first, form=form, part="", entries={"parts": ((first.part, entries), (second.part, entries))})


def _sorted(findings: Iterable[Finding]) -> list[Finding]:
    """The worst first, each mistake once."""
    unique: dict[str, Finding] = {}
    for finding in findings:
        first = unique.setdefault(finding.mistake.id, finding)
        if first.part in THREE and finding.part in THREE and first.part != finding.part and first.form == finding.form:
            unique[finding.mistake.id] = in_both(first, finding)
    if "B11" in unique:
        for shown in ("A25", "B24"):
            unique.pop(shown, None)  # by evaluation, or by what is left of the sum in training
    if "B21" in unique:
        for shown in ("B12", "B30"):
            unique.pop(shown, None)  # new weights, not dropout, in the place of those that are left alone
    if "B30" in unique and unique["B30"].form.startswith("a sublayer's output"):
        unique.pop("B24", None)  # what is dropped stands in the place of that output
    one_head = unique.get("A13")
    is_one = one_head is not None and one_head.form in (ONE_HEAD, ONE_TURNED)
    if one_head is not None and is_one and "B29" in unique and unique["B29"].form == "num_heads":
        entries = unique.pop("A13").mistake.changes[one_head.form]  # one head, whatever number it is told, is one thing
        unique["B29"] = replace(unique["B29"], entries=entries)
    if "B29" in unique and unique.get("A1", unique["B29"]).form == OUTSIDE:
        unique.pop("B29")  # the scores' divisor is that number of the file
    return sorted(unique.values(), key=lambda one: (SEVERITIES.index(one.severity), one.mistake.id != STOPS))


def _notes(match: Match) -> Iterator[str]:
    if EXACT < match.error <= ROUNDED:
        yield f"Somewhere it computes in single precision (float32): it agrees to {match.error:.0e} only."


def _does_without(session: Session) -> Iterator[str]:
    """What has several heads, and none of the weights that mix them."""
    has_heads = session.settings.get("num_heads", 1) > 1
    if has_heads and any(name.endswith("w_o.weight") for name in session.candidate.missing):
        yield UNMIXED


def _has_besides(session: Session) -> Iterator[str]:
    """What else is to be trained in it: a shift of RMSNorm, a bias for every distance."""
    besides = session.candidate.besides(**session.ran[0].probe.inputs)
    if besides:
        said = " and ".join(filter(None, (", ".join(besides[:-1]), besides[-1])))
        yield f"Besides the reference's weights it has {said}: what becomes of that in training was not checked."


def _limits(session: Session, findings: Sequence[Finding]) -> Iterator[str]:
    """What it was not called with, and where it stopped, as far as no mistake tells that."""
    said, settings = session.candidate.limits, session.settings
    if settings.get("num_heads") == settings.get("d_model", 0) and "A1" in session.kind.mistakes:
        yield "Its heads are one number wide, of which every root is 1: a wrong scale would not be seen."
    lengths = [shapes(result.probe) for result in session.ran] if ONE_LENGTH in said else []  # of others that is said
    left_out = [probe for probe in session.left_out if not lengths or shapes(probe) in lengths]
    if left_out and not any("no mask" in limit for limit in said):
        unsaid = dict.fromkeys(probe.shows for probe in left_out)
        yield NOT_GIVEN.format("; ".join(unsaid))
    for result in session.crashes:
        error, first = result.error, _first_line(result.error)
        if not first or not any(first in finding.evidence for finding in findings):
            yield f"With {result.probe.shows} it stops with {type(error).__name__}: {first}"


def _scores_no_words(session: Session) -> Iterator[str]:
    """That a whole model gives vectors of d_model, where a score for every word is asked for."""
    settings = session.settings
    words, width = settings.get("vocab_size", settings.get("tgt_vocab_size")), settings.get("d_model")
    widths = {result.output.shape[-1:] for result in session.ran if result.output is not None}
    if words not in (None, width) and widths == {(width,)} and any("projection" in name for name in session.asked):
        yield f"It gives {width} numbers for every token, d_model of them, and no score for each of the {words} words."


def _is_told(limit: str, findings: Sequence[Finding]) -> bool:
    """Whether a mask that the kind has no input for was given after all."""
    return limit.startswith("It was not given") and any(found.evidence.startswith(GIVEN) for found in findings)


def _first_line(error: Exception | None) -> str:
    return next(iter(str(error).strip().splitlines()), "")[:200]
