"""One plan of a call, tried: what it is called through, whether it runs, and how well weights and masks explain it."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from scratch_transformer.kit.judge.session import ROUNDED, distance, says_nothing
from scratch_transformer.kit.kind import OF_FLAG, Candidate, Kind, Probe
from scratch_transformer.kit.resolve.call import caching, calling
from scratch_transformer.kit.resolve.call.plan import MASKS, CannotCall, Plan
from scratch_transformer.kit.resolve.call.precision import double
from scratch_transformer.kit.resolve.candidate import Resolved
from scratch_transformer.kit.resolve.library import around, supplied
from scratch_transformer.kit.resolve.trial import MISTAKEN, NOTHING, Score, Trial
from scratch_transformer.kit.resolve.trials import adjust, flags
from scratch_transformer.kit.resolve.trials.mask_search import SHAPES, find_masks, refusal, with_required_masks
from scratch_transformer.kit.resolve.trials.outcome import Outcome, farther, raised
from scratch_transformer.kit.resolve.trials.probing import is_alike, open_probes, probes_for
from scratch_transformer.kit.resolve.trials.weight_search import find_weights
from scratch_transformer.kit.resolve.weights.layout import Parameters

if TYPE_CHECKING:
    from scratch_transformer.kit.resolve.library.library import Library

GIVEN_VECTORS = re.compile(r"'indices' to have one of the following scalar types: Long")
GIVEN_IDS = re.compile(r"not implemented for 'Long'|Got: Long|same dtype, but got: long", re.IGNORECASE)
WANTS_MASK = re.compile(r"NoneType|mask|\bbool\b|must (be|not be|have)|provide|require", re.IGNORECASE)
"""What something says that stops without its mask: None == 0 is a bool."""
MOST_ALIKE = len(SHAPES)
"""Forms of masks with which something stops with one and the same error."""


def planned(made: Any, function: Any, kind: Kind, library: Library, settings: dict[str, Any], plan: Plan) -> Outcome:
    """Called with what has no mask; where that stops always, with sources and targets of one length."""
    trial = library.trial(kind, settings, made)
    alike = [probe for probe in trial.probes if is_alike(probe)]
    if alike and library.one_length:  # source and target of the longest length, both
        outcome = _with_probes(open_probes(alike), alike, made, function, kind, library, settings, plan)
        if outcome.candidate is not None:
            return outcome
    outcome = _with_probes(open_probes(trial.probes), trial.probes, made, function, kind, library, settings, plan)
    if outcome.candidate is None and plan.may_leave_masks and WANTS_MASK.search(str(outcome.error)):
        needed = plan.with_all_masks()  # its default is None, and it stops with that
        again = _with_probes(open_probes(trial.probes), trial.probes, made, function, kind, library, settings, needed)
        if again.candidate is not None:
            again.candidate.notes.append("It stops without a mask, so it was given one that hides nothing.")
            again.candidate.unmasked = outcome.error if isinstance(outcome.error, Exception) else None
            return again
    caches = caching.with_none_kept(plan, function, int(settings.get("num_layers", 0)))
    if outcome.candidate is None and caches is not None and "NoneType" in str(outcome.error):
        again = _with_probes(open_probes(trial.probes), trial.probes, made, function, kind, library, settings, caches)
        outcome = again if again.candidate is not None else outcome
    if outcome.candidate is None and alike and not library.is_late and not library.one_length:
        again = _with_probes(open_probes(alike), alike, made, function, kind, library, settings, plan)
        return again if again.candidate is not None and again.score[0] < NOTHING else outcome
    return outcome


def _with_probes(
    first: list[Probe], among: Sequence[Probe], made: Any, function: Any, kind: Kind, library: Library,
    settings: dict[str, Any], plan: Plan,
) -> Outcome:  # fmt: skip
    """first: without masks, if there are such. among: those from which masks are found too."""
    trial = library.trial(kind, settings, made)
    error: BaseException | None = None
    first_of_all: BaseException | None = None
    best = Outcome(kind, stage="called")
    every = any(probe.inputs.get(name) is not None for probe in first for name in MASKS)
    starts, alike, is_random, of_words = 0, 0, False, "next_logits" in kind.inputs
    way_matters = of_words or any(not name for _, name, _ in plan.mask_parameters)
    silent: list[tuple[Plan, Any]] = []
    tried: list[Resolved] = []
    ways = itertools.chain(_ways(made, function, kind, plan, library, every), silent)
    for start, way in ways:
        is_second = any(start is one for one, _ in silent)
        if (library.is_late and error is not None) or (is_second and best.candidate is not None):
            break
        candidate = Resolved(kind, made, settings, start, rebuild=library.rebuilder(made, kind, settings))
        candidate.has_lent = bool(library.supplied)
        candidate.shape_of = trial.expected_shape
        candidate.function = way
        one = next((probe for probe in first if candidate.accepts(probe.inputs)), None)
        stopped = _try(candidate, [one]) if one else CannotCall("it cannot be given the inputs of its kind")
        probes = [probe for probe in first if stopped is None and candidate.accepts(probe.inputs)]
        if stopped is None:
            adjust.adapt_output(candidate, probes[0], trial)
            stopped = _try(candidate, probes[:1])  # of another shape, positions cannot even be added
        if stopped is not None:
            library.hear(stopped)
            first_of_all = first_of_all or stopped
            error = farther(error, stopped, made)
            alike = alike + 1 if str(stopped) == str(first_of_all) else -MOST_ALIKE
            if (alike >= MOST_ALIKE and not of_words) or _wants_others(stopped, kind):
                break  # masks of every shape do not matter to it
            continue
        if adjust.gives_last_only(candidate, probes[0], trial):
            if adjust.takes_targets(candidate):
                error = error or CannotCall("it returns the logits of the last position only")
                continue
            adjust.with_beginnings(candidate)
        if adjust.cuts_last(candidate, probes[0], trial) and (stopped := _try(candidate, probes[:1])) is not None:
            error = error or stopped
            continue
        if not is_second and start.masks and _is_silent(candidate, probes[0]):
            silent.append((start, way))  # a mask that is meant the other way round: others go first
            continue
        starts += 1
        library.answers += 1
        is_random = _is_random(candidate, probes[0])
        if not is_random and any(_is_the_same(candidate, other, probes) for other in tried):
            continue
        tried.append(candidate)
        score = find_weights(candidate, trial, probes, library, thorough=starts == 1 and not every and not is_random)
        outcome = Outcome(kind, candidate, score, "done", form=adjust.form_of_output(candidate, probes[0], trial))
        is_head = (outcome.form, best.form) == ("narrow", "wrong") and best.score[0] >= NOTHING
        if outcome.beats(best) or is_head:  # of one head, where a mask of another shape gave another output
            best = outcome
        if is_random or score[0] == 0 or (score[0] < NOTHING and not way_matters):
            break
    if best.candidate is None:
        best.unknown, best.error = calling.meaningless(function, plan), error
        given = " and ".join(f"{name}=None" for name in best.unknown)
        what = f"its forward, given {given} as nothing tells what it is," if given else "its forward"
        best.problem = raised(what, error)
        return best
    if is_random:  # nothing gives the numbers of one call again, so nothing is searched for
        return best
    if best.score[0] >= NOTHING and library.thorough and (starts > 1 or every) and not library.is_late:
        best.score = find_weights(best.candidate, trial, probes_for(best.candidate, first), library)
    if not every or len(first) < len(among) or best.score[0] >= NOTHING:
        hopeless = best.score[0] >= NOTHING and not every  # what no mistake explains without masks, none does with them
        plan, score = best.candidate.plan, _masked(best, trial, 0 if hopeless else library.most_tiers, among)
        others = [probe for probe in among if not is_alike(probe)]
        unmasked = score[0] >= NOTHING > best.score[0] and all(map(is_alike, first)) and "query" not in kind.inputs
        if unmasked and _stops(best.candidate, plan, others):
            best.candidate.plan = plan
        else:
            best.score = max(best.score, score)
    adjust.notes(best.candidate)
    if isinstance(made, around.Around):
        best.candidate.takes_vectors = True
        best.candidate.notes.append(made.note)
    asked = [n for n, value in best.candidate.plan.constants.items() if value is True and "smooth" in n.lower()]
    best.candidate.limits += [
        f"It was called with {name}=True: what it does without was not checked." for name in asked
    ]
    if not library.supplied:
        best.candidate.limits += supplied.notes(made)
        best.candidate.replaced += supplied.names(made)
    return best


def _masked(best: Outcome, trial: Trial, tiers: int, among: Sequence[Probe]) -> Score:
    """How well it is explained with masks; what is explained without, and stops with each, has that one mistake."""
    assert best.candidate is not None
    score = find_masks(best.candidate, trial, tiers, among)
    if score[0] < NOTHING:
        return score
    square, others = ([p for p in among if is_alike(p) == alike] for alike in (True, False))
    if square and refusal(best.candidate, others) is not None:  # that it needs as many keys as queries is harmless
        of_one_length = find_masks(best.candidate, trial, tiers, square)
        if of_one_length[0] < NOTHING:
            return of_one_length
    if score[0] == NOTHING:
        return score
    refused = refusal(best.candidate, among)
    if refused is not None and flags.IS_ASKED in str(refused[1]):
        return _as_flag(best, refused)
    if best.score[0] >= NOTHING:
        return score
    made = best.candidate.made
    if isinstance(made, nn.Module) and any(isinstance(part, supplied.Supplied) for part in made.modules()):
        best.candidate.limits.append("With its masks it stops, as the reference's part may: they were not checked.")
    else:
        best.candidate.refused = refused
        if refused is None:
            return score
        if isinstance(refused[1], AssertionError):  # of a shape that it wants: of one token less, say
            said = f"Its {refused[0]} is of another sort (AssertionError: {refused[1]}): it was checked without."
            best.candidate.limits.append(said)
            best.candidate.refused, best.candidate.plan = None, best.candidate.plan.with_masks({})
            return best.score
    best.candidate.plan = best.candidate.plan.with_masks({})
    return MISTAKEN, best.score[1]


def _as_flag(best: Outcome, refused: tuple[str, Exception]) -> Score:
    """Without what is asked for as if it were true or false; a mistake if it is a mask all the same."""
    assert best.candidate is not None
    best.candidate.plan = best.candidate.plan.with_masks({})
    if flags.is_computed_with(refused[1]):
        best.candidate.refused = refused
        return max(best.score, (MISTAKEN, best.score[1]))
    if len(best.candidate.plan.mask_parameters) == 1 and flags.may_hide(refused[0]):
        best.candidate.mask_flag = refused[0]
    best.candidate.limits.append(OF_FLAG.format(refused[0]))
    return best.score


def _ways(
    made: Any, function: Any, kind: Kind, plan: Plan, library: Library, every: bool
) -> Iterator[tuple[Plan, Any]]:
    """The plan with the masks that it must have, and what to call."""
    asked = flags.asked(made, [parameter for parameter, _, _ in plan.mask_parameters])
    for start in with_required_masks(plan, every, library.polarities(made), asked):
        for way in adjust.adapted(function, kind, start, library.head_logs):
            yield start, way


def _wants_others(error: Exception, kind: Kind) -> bool:
    """Whether it was given vectors in place of ids, or ids in place of vectors."""
    ids = {"ids", "src", "tgt"} & set(kind.inputs)
    return bool((GIVEN_IDS if ids else GIVEN_VECTORS).search(str(error)))


def _is_silent(candidate: Candidate, probe: Probe) -> bool:
    """Whether its numbers are all NaN; or attention's are the same for all queries, as where all keys are hidden."""
    with double(), torch.no_grad():
        output = candidate(**probe.inputs)
    is_attention = candidate.kind.name.endswith("Attention") and output.dim() > 2 and output.shape[-2] > 1
    mean = output[..., :1, :].expand_as(output) if is_attention else None
    return says_nothing(output) or (mean is not None and distance(output, mean, probe) <= ROUNDED)


def _is_random(candidate: Candidate, probe: Probe) -> bool:
    """Whether a second call with the same inputs gives other numbers: weights that are made in forward."""
    with double(), torch.no_grad():
        first, again = candidate(**probe.inputs), candidate(**probe.inputs)
    if first.shape != again.shape:
        return False
    return distance(again.nan_to_num(), first.nan_to_num(), probe) > ROUNDED  # NaN twice is the same


def _is_the_same(candidate: Resolved, other: Resolved, probes: Sequence[Probe]) -> bool:
    """Whether another way to call it gives the same numbers on all probes, as with a mask that hides nothing anyway.

    With weights that nobody has chosen: what one layout leaves at 0 would hide a difference.
    """
    own = Parameters(candidate.module) if candidate.module is not None else None
    try:
        with own.changed(own.tensors) if own is not None else contextlib.nullcontext(), torch.no_grad():
            outputs = ([one(**probe.inputs).double().nan_to_num() for one in (candidate, other)] for probe in probes)
            return all(other.accepts(probe.inputs) for probe in probes) and all(itertools.starmap(torch.equal, outputs))
    except Exception:  # the learner's code may raise anything
        return False


def _stops(candidate: Resolved, plan: Plan, probes: Sequence[Probe]) -> bool:
    """Whether it stops with each of them."""
    candidate.plan = plan
    return all(_try(candidate, [probe]) is not None for probe in probes)


def _try(candidate: Candidate, probes: Sequence[Probe]) -> Exception | None:
    try:
        for probe in probes:
            candidate(**probe.inputs)
    except Exception as error:
        return error
    return None
