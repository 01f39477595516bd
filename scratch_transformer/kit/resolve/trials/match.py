"""Resolves a class or function: builds it, finds out how to call it, where its weights are, and how it takes masks."""

from __future__ import annotations

import itertools
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from scratch_transformer.kit.judge.session import ROUNDED, distance, says_nothing
from scratch_transformer.kit.kind import Candidate, Kind, Probe
from scratch_transformer.kit.resolve import guess
from scratch_transformer.kit.resolve.build import asked, construct, inside, instance
from scratch_transformer.kit.resolve.build.config import Unknown
from scratch_transformer.kit.resolve.call import batching, caching, calling, forwards
from scratch_transformer.kit.resolve.call.plan import MASKS, CannotCall, Plan
from scratch_transformer.kit.resolve.call.precision import double
from scratch_transformer.kit.resolve.call.tokenizer import is_tokenizer
from scratch_transformer.kit.resolve.candidate import Resolved
from scratch_transformer.kit.resolve.functions import decoders, rotations, schedules, training
from scratch_transformer.kit.resolve.functions.readings import readings
from scratch_transformer.kit.resolve.functions.toy import EOS
from scratch_transformer.kit.resolve.functions.weighted import Weighted
from scratch_transformer.kit.resolve.library import around, supplied
from scratch_transformer.kit.resolve.names.inputs import input_of
from scratch_transformer.kit.resolve.trial import MISTAKEN, NOTHING, Score, Trial
from scratch_transformer.kit.resolve.trials import adjust, probing
from scratch_transformer.kit.resolve.trials.mask_search import SHAPES, find_masks, refusal, with_required_masks
from scratch_transformer.kit.resolve.trials.probing import is_alike, open_probes, probes_for
from scratch_transformer.kit.resolve.trials.weight_search import find_weights
from scratch_transformer.kit.resolve.weights.layout import prepare

if TYPE_CHECKING:
    from scratch_transformer.kit.resolve.library.library import Library


SPECIAL = (*batching.AXES, caching.TOKENWISE)
"""Orders of dimensions that are tried where no usual one fits."""
MOST_SUPPLIED = 3
"""Parts of one component that the reference may stand in for."""
MOST_ALIKE = len(SHAPES)
"""Forms of masks with which something stops with one and the same error."""
MOST_REPLACED, LEAST_SECONDS = 3, 1.0
"""Times and seconds of computing, for a component whose unclear parts the reference stands in for."""


@dataclass
class Outcome:
    """candidate: None if it could not be built or called; then problem says why, and error is what was raised.

    stage: "built" (its constructor), "called" (its forward), "done".
    """

    kind: Kind
    candidate: Resolved | None = None
    score: Score = (NOTHING, float("inf"))
    stage: str = "built"
    problem: str = ""
    error: BaseException | None = None
    notes: list[str] = field(default_factory=list)
    used: Mapping[str, Any] = field(default_factory=dict)
    """The settings that its constructor asked for."""
    unknown: list[str] = field(default_factory=list)
    """Required parameters of what stopped, of which nobody knows what they take."""
    form: str = ""
    """Of its output's shape: "right", "wrong", or "narrow", with fewer features than its input, as of one head."""

    def beats(self, other: Outcome | None) -> bool:
        """Better explained; without an explanation, at least callable."""
        if other is None or other.candidate is None:
            return True
        if self.candidate is None:
            return False
        return (self.score[0], self.score[1] > 1e6) < (other.score[0], other.score[1] > 1e6)


def resolve(thing: Any, kind: Kind, library: Library, settings: Mapping[str, Any] | None = None) -> Outcome:
    """A class, an instance or a function as a candidate of this kind, or why it cannot be one.

    Where a part of it is missing or broken, the reference takes the part's place.
    """
    best = _resolved(thing, kind, library, settings)
    if best.candidate is not None and best.score[0] >= library.most_tiers and not library.supplied:
        return _without_unclear_parts(best, thing, library, settings)
    fault = library.at_fault(best.error, thing) if isinstance(thing, type) and best.candidate is None else None
    if fault is None or fault[0] in library.supplied or len(library.supplied) >= MOST_SUPPLIED or library.is_late:
        return best
    why = _raised("it", best.error).removeprefix("it stops with ")
    for pair in (False, True):  # of a batch of two, a tensor can be taken for two things, so both are tried
        with library.supplying(*fault, {**kind.complete(settings or {})}, pair):
            again = resolve(thing, kind, library, settings)
        if again.candidate is None or not again.beats(best) or _is_hollow(again.candidate.made, fault[2], kind):
            continue
        note = f"Its {fault[0]} cannot be used ({why}); the reference's was put in its place."
        again.candidate.limits.append(note)
        again.candidate.replaced.append(fault[0])
        best = again
        if best.score[0] < NOTHING:
            break
    return best


def _is_hollow(made: Any, part: str, kind: Kind) -> bool:
    """Whether the reference's is all that it has: a stack of layers in place of the stack."""
    own = made.inner if isinstance(made, around.Around) else made
    if not isinstance(own, nn.Module) or not guess.are_related(part, kind.name):
        return False
    lent = {id(p) for module in own.modules() if isinstance(module, supplied.Supplied) for p in module.parameters()}
    return all(id(values) in lent for values in own.parameters())


def _without_unclear_parts(best: Outcome, thing: Any, library: Library, settings: Mapping[str, Any] | None) -> Outcome:
    """What it is with the reference in place of those parts that nothing explains, if that explains the rest."""
    unclear = library.unclear_parts(thing) if library.replaced.count(thing) < MOST_REPLACED else {}
    if not unclear:
        return best
    if library.is_late and thing in library.replaced:
        return best
    library.replaced.append(thing)
    library.deadline = max(library.deadline, time.process_time() + LEAST_SECONDS)
    with ExitStack() as replaced:
        for part, kind in unclear.items():
            own = {**best.kind.complete(settings or {})}
            replaced.enter_context(library.supplying(part.__name__, part, kind, own, supplied.returns_two(part)))
        again = _resolved(thing, best.kind, library, settings)
    if again.candidate is None or again.score[0] >= library.most_tiers:
        return best
    for name in dict.fromkeys(part.__name__ for part in unclear):
        again.candidate.limits.append(f"Nothing explains its {name}: it is judged with the reference's in that place.")
        again.candidate.replaced.append(name)
    return again


def _resolved(thing: Any, kind: Kind, library: Library, settings: Mapping[str, Any] | None) -> Outcome:
    best = Outcome(kind)
    for wanted in asked.settings(thing, kind, settings):
        for outcome in _attempts(thing, kind, library, wanted):
            if outcome.beats(best if best.candidate or best.problem else None):
                best = outcome
            if best.score[0] < library.most_tiers or library.is_late:
                return best
        knows_heads = "num_heads" in best.used or asked.has_heads(thing)
        if best.score[0] < NOTHING or (knows_heads and best.form != "narrow"):
            break
    return best


def _attempts(thing: Any, kind: Kind, library: Library, settings: dict[str, Any]) -> Iterator[Outcome]:
    if kind.name in training.KINDS:
        settings = settings | training.told(thing, kind, settings)
        yield from _called(training.reading(thing, kind, settings), kind, library, settings, {})
        return
    if not isinstance(thing, type) and not forwards.is_factory(thing, kind):
        library.set_globals(thing, settings)
        for made in readings(thing, kind, settings):
            yield from _called(made, kind, library, settings, {})
        return
    failed: list[construct.Attempt] = []
    called: set[tuple[Any, ...]] = set()
    given = {**schedules.optimizers(thing), **library.given} if kind.name == "WarmupSchedule" else library.given
    try:
        for attempt in construct.attempts(
            thing, settings, library.namespace_of(thing), library.parts(kind, thing), given
        ):
            pads = library.set_globals(thing, settings)
            if library.is_late and failed:
                break
            try:
                with double():
                    made = attempt.build()
            except Exception:
                made = _built_inside(attempt, thing, library, settings)
                if made is None:
                    failed.append(attempt)
                    continue
            alike = attempt.alike(made)
            if alike not in called:
                for outcome in _called(made, kind, library, settings, {**pads, **attempt.used}):
                    called |= {alike} if outcome.candidate is not None else set()
                    yield outcome
    except Unknown as error:
        known = "" if "," in str(error) else ", and no value for that is known"
        yield Outcome(kind, problem=f"its constructor takes {error}{known}", error=error)
        return
    if failed:  # the one that came farthest says most
        best = max(failed, key=lambda attempt: attempt.reached)
        yield Outcome(kind, problem=_raised("its constructor", best.error), error=best.error)


def _built_inside(attempt: construct.Attempt, thing: Any, library: Library, settings: Mapping[str, Any]) -> Any:
    """What is built once sizes that it does not pass on to its parts fit; None if it still cannot be."""
    error = attempt.error
    if not isinstance(error, (AssertionError, ValueError)):
        return None
    with inside.told(library.classes_beside(thing), settings) as are_any:
        try:
            return attempt.build() if are_any else None
        except Exception:
            attempt.error = error
            return None


def _called(
    made: Any, kind: Kind, library: Library, settings: dict[str, Any], used: Mapping[str, Any]
) -> Iterator[Outcome]:
    """All ways to call what was made."""
    made = schedules.of_steps(made) if schedules.is_schedule(type(made)) else forwards.held(made)
    if around.of_vectors(made, kind, {**kind.defaults, **settings}):
        made = around.Around(made, {name: settings.get(name, value) for name, value in kind.defaults.items()})
    if isinstance(made, nn.Module):
        prepare(made)
    function = forwards.forward_of(made, kind)
    if kind.name == "RotaryEmbedding":
        function = rotations.as_turning(made, {**kind.defaults, **settings}) or function
    actual = instance.settings_of_instance(made, kind, settings, used)
    if "knows_eos" in kind.defaults:
        names = [p.name for p in construct.parameters_of(function)]
        asks = any(map(is_tokenizer, names)) and decoders.asks_for_end(function)
        asks = asks or EOS in decoders.ends_in(function).values()
        actual["knows_eos"] = asks or any(input_of(name, ("eos",)) for name in names)
    if "takes_positions" in kind.defaults:
        names = [p.name for p in construct.parameters_of(function)]
        actual["takes_positions"] = any(input_of(name, ("positions",)) for name in names)
    problem: Outcome | None = None
    forms: set[str] = set()
    try:
        is_function = not isinstance(made, nn.Module) or isinstance(made, Weighted)
        orders = calling.orders(kind, is_function, not is_function and caching.keeps(made))
        plans = calling.plans(function, kind.inputs, actual, orders, library.tables(function, actual))
        plans = (plan for plan in plans if plan.gives_targets or not library.gives_targets)
        for plan in probing.distinct(plans, function, library.trial(kind, actual, made).probes):
            if "right" in forms and not is_function and plan.order in SPECIAL:
                continue  # it takes batches of sequences
            outcome = _planned(made, function, kind, library, actual, plan)
            outcome.used = used
            forms.add(outcome.form)
            if outcome.candidate is not None:
                yield outcome
            else:
                problem = problem or outcome
            if library.is_late:
                break
    except (CannotCall, AssertionError) as error:  # the reference refuses such sizes: 3 heads for d_model = 17
        problem = Outcome(kind, stage="called", problem=str(error), error=error)
    if problem is not None:
        yield problem


def _planned(made: Any, function: Any, kind: Kind, library: Library, settings: dict[str, Any], plan: Plan) -> Outcome:
    """Called with what has no mask; where that stops always, with sources and targets of one length."""
    trial = library.trial(kind, settings, made)
    outcome = _planned_with(open_probes(trial.probes), trial.probes, made, function, kind, library, settings, plan)
    if outcome.candidate is None and plan.may_leave_masks and "NoneType" in str(outcome.error):
        needed = plan.with_all_masks()  # its default is None, and it stops with that
        again = _planned_with(open_probes(trial.probes), trial.probes, made, function, kind, library, settings, needed)
        if again.candidate is not None:
            again.candidate.notes.append("It stops without a mask, so it was given one that hides nothing.")
            return again
    caches = caching.with_none_kept(plan, function, int(settings.get("num_layers", 0)))
    if outcome.candidate is None and caches is not None and "NoneType" in str(outcome.error):
        again = _planned_with(open_probes(trial.probes), trial.probes, made, function, kind, library, settings, caches)
        outcome = again if again.candidate is not None else outcome
    alike = [probe for probe in trial.probes if is_alike(probe)]
    if outcome.candidate is None and alike and not library.is_late:
        again = _planned_with(open_probes(alike), alike, made, function, kind, library, settings, plan)
        return again if again.candidate is not None and again.score[0] < NOTHING else outcome
    return outcome


def _planned_with(
    first: list[Probe], among: Sequence[Probe], made: Any, function: Any, kind: Kind, library: Library,
    settings: dict[str, Any], plan: Plan,
) -> Outcome:  # fmt: skip
    """first: without masks, if there are such. among: those from which masks are found too."""
    trial = library.trial(kind, settings, made)
    error: BaseException | None = None
    best = Outcome(kind, stage="called")
    every = any(probe.inputs.get(name) is not None for probe in first for name in MASKS)
    starts, alike, is_random, of_words = 0, 0, False, "next_logits" in kind.inputs
    way_matters = of_words or any(not name for _, name, _ in plan.mask_parameters)
    silent: list[tuple[Plan, Any]] = []
    ways = itertools.chain(_ways(made, function, kind, plan, library, every), silent)
    for start, way in ways:
        is_second = any(start is one for one, _ in silent)
        if (library.is_late and error is not None) or (is_second and best.candidate is not None):
            break
        rebuild = None if library.supplied else library.rebuilder(made, kind, settings)
        candidate = Resolved(kind, made, settings, start, rebuild=rebuild)
        candidate.shape_of = trial.expected_shape
        candidate.function = way
        probes = [probe for probe in first if candidate.accepts(probe.inputs)]
        raised = _try(candidate, probes[:1]) if probes else CannotCall("it cannot be given the inputs of its kind")
        if raised is None:
            adjust.adapt_output(candidate, probes[0], trial)
            raised = _try(candidate, probes[:1])  # of another shape, positions cannot even be added
        if raised is not None:
            error = error or raised
            alike = alike + 1 if str(raised) == str(error) else -MOST_ALIKE
            if alike >= MOST_ALIKE and not of_words:
                break  # masks of every shape do not matter to it
            continue
        if adjust.gives_last_only(candidate, probes[0]):
            error = error or CannotCall("it returns the logits of the last position only")
            continue
        if adjust.cuts_last(candidate, probes[0], trial) and (raised := _try(candidate, probes[:1])) is not None:
            error = error or raised
            continue
        if not is_second and start.masks and _is_silent(candidate, probes[0]):
            silent.append((start, way))  # a mask that is meant the other way round: others go first
            continue
        starts += 1
        is_random = _is_random(candidate, probes[0])
        score = find_weights(candidate, trial, probes, library, thorough=starts == 1 and not every and not is_random)
        outcome = Outcome(kind, candidate, score, "done", form=adjust.form_of_output(candidate, probes[0], trial))
        if outcome.beats(best):
            best = outcome
        if is_random or score[0] == 0 or (score[0] < NOTHING and not way_matters):
            break
    if best.candidate is None:
        best.problem, best.error = _raised("its forward", error), error
        best.unknown = calling.meaningless(function, plan)
        return best
    if is_random:  # nothing gives the numbers of one call again, so nothing is searched for
        return best
    if best.score[0] >= NOTHING and library.thorough and (starts > 1 or every) and not library.is_late:
        best.score = find_weights(best.candidate, trial, probes_for(best.candidate, first), library)
    if not every or len(first) < len(among) or best.score[0] >= NOTHING:
        hopeless = best.score[0] >= NOTHING and not every  # what no mistake explains without masks, none does with them
        plan, score = best.candidate.plan, _masked(best, trial, 0 if hopeless else library.most_tiers, among)
        others = [probe for probe in among if not is_alike(probe)]
        if score[0] >= NOTHING > best.score[0] and all(map(is_alike, first)) and _stops(best.candidate, plan, others):
            best.candidate.plan = plan
        else:
            best.score = max(best.score, score)
    adjust.notes(best.candidate)
    best.candidate.notes += [around.NOTE] if isinstance(made, around.Around) else []
    if not library.supplied:
        best.candidate.limits += supplied.notes(made)
        best.candidate.replaced += supplied.names(made)
    return best


def _masked(best: Outcome, trial: Trial, tiers: int, among: Sequence[Probe]) -> Score:
    """How well it is explained with masks; what is explained without, and stops with each, has that one mistake."""
    assert best.candidate is not None
    score = find_masks(best.candidate, trial, tiers, among)
    if score[0] <= NOTHING or best.score[0] >= NOTHING:
        return score
    best.candidate.refused = refusal(best.candidate, among)
    if best.candidate.refused is None:
        return score
    best.candidate.plan = best.candidate.plan.with_masks({})
    return MISTAKEN, best.score[1]


def _ways(
    made: Any, function: Any, kind: Kind, plan: Plan, library: Library, every: bool
) -> Iterator[tuple[Plan, Any]]:
    """The plan with the masks that it must have, and what to call."""
    for start in with_required_masks(plan, every, library.polarities(made)):
        for way in adjust.adapted(function, kind, start, library.head_logs):
            yield start, way


def _is_silent(candidate: Candidate, probe: Probe) -> bool:
    """Whether its numbers are all NaN."""
    with double(), torch.no_grad():
        return says_nothing(candidate(**probe.inputs))


def _is_random(candidate: Candidate, probe: Probe) -> bool:
    """Whether a second call with the same inputs gives other numbers: weights that are made in forward."""
    with double(), torch.no_grad():
        first, again = candidate(**probe.inputs), candidate(**probe.inputs)
    if first.shape != again.shape:
        return False
    return distance(again.nan_to_num(), first.nan_to_num(), probe) > ROUNDED  # NaN twice is the same


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


def _raised(what: str, error: BaseException | None) -> str:
    if error is None:
        return f"{what} cannot be called"
    text = " ".join(str(error).split())[:240]
    if isinstance(error, CannotCall):
        return text
    return f"{what} stops with {type(error).__name__}: {text}".removesuffix(": ") + _line(error)


def _line(error: BaseException) -> str:
    """Where in the learner's code it happened: the innermost line that is neither the kit's nor a library's."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not any(part in f.filename for part in ("site-packages", "scratch_transformer/kit"))]
    own = [frame for frame in own if frame.line and not frame.filename.startswith(("<frozen", sys.base_prefix))]
    return f" ({Path(own[-1].filename).name}:{own[-1].lineno}: {(own[-1].line or '')[:80]})" if own else ""
