"""Resolves a class or function: builds it, finds out how to call it, where its weights are, and how it takes masks."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from scratch_transformer.conformance.kit.kind import Candidate, Kind, Probe
from scratch_transformer.conformance.kit.resolve import adjust, align, asked, calling, construct, functions, schedules
from scratch_transformer.conformance.kit.resolve.calling import MASKS, CannotCall, Plan
from scratch_transformer.conformance.kit.resolve.candidate import Resolved
from scratch_transformer.conformance.kit.resolve.config import Unknown
from scratch_transformer.conformance.kit.resolve.layout import Layout, Parameters, prepare
from scratch_transformer.conformance.kit.resolve.masks import Form, Inexpressible, forms
from scratch_transformer.conformance.kit.resolve.precision import double
from scratch_transformer.conformance.kit.resolve.readings import readings
from scratch_transformer.conformance.kit.resolve.synonyms import input_of
from scratch_transformer.conformance.kit.resolve.trial import MISTAKEN, NOTHING, Score, Trial
from scratch_transformer.conformance.kit.resolve.weights import Weighted

if TYPE_CHECKING:
    from scratch_transformer.conformance.kit.resolve.library import Library

SECONDS = 2.0
"""Of computing, for the search for weights in one way to build and call a component."""
MOST_LAYOUTS, MOST_MISTAKEN, MOST_MISTAKEN_MASKS = 150, 40, 8
NEUTRAL = ("True = may attend", "1 = may attend", "True = blocked", "0 or -inf, added")


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

    def beats(self, other: Outcome | None) -> bool:
        """Better explained; without an explanation, at least callable."""
        if other is None or other.candidate is None:
            return True
        if self.candidate is None:
            return False
        return (self.score[0], self.score[1] > 1e6) < (other.score[0], other.score[1] > 1e6)


def resolve(thing: Any, kind: Kind, library: Library, settings: Mapping[str, Any] | None = None) -> Outcome:
    """A class, an instance or a function as a candidate of this kind, or why it cannot be one."""
    best = Outcome(kind)
    for wanted in asked.settings(thing, kind, settings):
        for outcome in _attempts(thing, kind, library, wanted):
            if outcome.beats(best if best.candidate or best.problem else None):
                best = outcome
            if best.score[0] < library.most_tiers or library.is_late:
                return best
        if best.score[0] < NOTHING or "num_heads" in best.used or asked.has_heads(thing):
            break
    return best


def _attempts(thing: Any, kind: Kind, library: Library, settings: dict[str, Any]) -> Iterator[Outcome]:
    if not isinstance(thing, type) and not functions.is_factory(thing, kind):
        for made in readings(thing, kind, settings):
            yield from _called(made, kind, library, settings, {})
        return
    errors: list[BaseException] = []
    called: set[tuple[Any, ...]] = set()
    given = {**schedules.optimizers(thing), **library.given} if kind.name == "WarmupSchedule" else library.given
    try:
        for attempt in construct.attempts(
            thing, settings, library.namespace_of(thing), library.parts(kind, thing), given
        ):
            library.set_globals(thing, settings)
            if library.is_late and errors:
                break
            try:
                with double():
                    made = attempt.build()
            except Exception as error:
                errors.append(error)
                continue
            alike = attempt.alike(made)
            if alike not in called:
                for outcome in _called(made, kind, library, settings, attempt.used):
                    called |= {alike} if outcome.candidate is not None else set()
                    yield outcome
    except Unknown as error:
        yield Outcome(kind, problem=f"its constructor takes {error}, and no value for that is known", error=error)
        return
    if errors:
        yield Outcome(kind, problem=_raised("its constructor", errors[0]), error=errors[0])


def _called(
    made: Any, kind: Kind, library: Library, settings: dict[str, Any], used: Mapping[str, Any]
) -> Iterator[Outcome]:
    """All ways to call what was made."""
    made = schedules.of_steps(made) if schedules.is_schedule(type(made)) else functions.held(made)
    if isinstance(made, nn.Module):
        prepare(made)
    function = functions.forward_of(made, kind)
    actual = adjust.settings_of_instance(made, kind, settings, used)
    if "knows_eos" in kind.defaults:
        names = [p.name for p in construct.parameters_of(function)]
        actual["knows_eos"] = any(input_of(name, ("eos",)) for name in names)
    problem: Outcome | None = None
    try:
        orders = calling.orders(kind, not isinstance(made, nn.Module) or isinstance(made, Weighted))
        for plan in calling.plans(function, kind.inputs, actual, orders):
            outcome = _planned(made, function, kind, library, actual, plan)
            outcome.used = used
            if outcome.candidate is not None:
                yield outcome
            else:
                problem = problem or outcome
            if library.is_late:
                break
    except CannotCall as error:
        problem = Outcome(kind, stage="called", problem=str(error), error=error)
    if problem is not None:
        yield problem


def _planned(made: Any, function: Any, kind: Kind, library: Library, settings: dict[str, Any], plan: Plan) -> Outcome:
    """Called with what has no mask; where that stops always, with sources and targets of one length."""
    trial = library.trial(kind, settings, made)
    outcome = _planned_with(_open_probes(trial.probes), made, function, kind, library, settings, plan)
    alike = [probe for probe in trial.probes if _is_alike(probe)]
    if outcome.candidate is None and alike and library.thorough and not library.is_late:
        again = _planned_with(alike, made, function, kind, library, settings, plan)
        return again if again.candidate is not None and again.score[0] < NOTHING else outcome
    return outcome


def _planned_with(
    first: list[Probe], made: Any, function: Any, kind: Kind, library: Library, settings: dict[str, Any], plan: Plan
) -> Outcome:
    trial = library.trial(kind, settings, made)
    error: BaseException | None = None
    best = Outcome(kind, stage="called")
    every = any(probe.inputs.get(name) is not None for probe in first for name in MASKS)
    starts = 0
    for start, way in _ways(made, function, kind, plan, library, every):
        if library.is_late and error is not None:
            break
        candidate = Resolved(kind, made, settings, start, rebuild=library.rebuilder(made, kind, settings))
        candidate.shape_of = trial.expected_shape
        candidate.function = way
        probes = [probe for probe in first if candidate.accepts(probe.inputs)]
        raised = _try(candidate, probes[:1]) if probes else CannotCall("it cannot be given the inputs of its kind")
        if raised is not None:
            error = error or raised
            continue
        adjust.adapt_output(candidate, probes[0], trial)
        if adjust.gives_last_only(candidate, probes[0]):
            error = error or CannotCall("it returns the logits of the last position only")
            continue
        starts += 1
        score = _find_weights(candidate, trial, probes, library, thorough=starts == 1 and not every)
        outcome = Outcome(kind, candidate, score, "done")
        if outcome.beats(best):
            best = outcome
        if score[0] == 0 or (score[0] < NOTHING and "next_logits" not in kind.inputs):
            break
    if best.candidate is None:
        best.problem, best.error = _raised("its forward", error), error
        return best
    if best.score[0] >= NOTHING and library.thorough and (starts > 1 or every) and not library.is_late:
        best.score = _find_weights(best.candidate, trial, probes_for(best.candidate, first), library)
    if not every or len(first) < len(trial.probes) or best.score[0] >= NOTHING:
        best.score = max(best.score, _find_masks(best.candidate, trial, library.most_tiers))
    adjust.notes(best.candidate)
    return best


def _ways(
    made: Any, function: Any, kind: Kind, plan: Plan, library: Library, every: bool
) -> Iterator[tuple[Plan, Any]]:
    """The plan with the masks that it must have, and what to call."""
    for start in _with_required_masks(plan, every, library.polarities(made)):
        for way in adjust.adapted(function, kind, start, library.head_logs):
            yield start, way


def _open_probes(probes: Sequence[Probe]) -> list[Probe]:
    """Probes without a mask; where every probe has one, those without padding; or all."""
    without = [p for p in probes if all(p.inputs.get(name) is None for name in MASKS)]
    return without or [p for p in probes if not _is_padded(p)] or list(probes)


def _is_alike(probe: Probe) -> bool:
    """Whether masks of the source and of the target have the same size: one in place of the other does not stop."""
    x, memory = probe.inputs.get("x"), probe.inputs.get("memory")
    return isinstance(x, torch.Tensor) and isinstance(memory, torch.Tensor) and x.shape == memory.shape


def _is_padded(probe: Probe) -> bool:
    """Whether a key is there that no query may attend to."""
    given = [probe.inputs[name] for name in MASKS if isinstance(probe.inputs.get(name), torch.Tensor)]
    return any(mask.dim() > 1 and not bool(mask.any(-2).all()) for mask in given)


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
    return f"{what} stops with {type(error).__name__}: {text}" if not isinstance(error, CannotCall) else text


# ---- Masks ----


SHAPES = (
    ("(B, 1, T, S)", "(B, 1, 1, S)"), ("(B, T, S)", "(B, 1, S)"), ("(T, S)", "(B, S)"),
    ("(B, 1, T, S)", "(B, 1, T, S)"),
    ("(B, T, S)", "(B, T, S)"), ("(B, 1, T, S)", "(B, S)"), ("(B, S)", "(B, S)"), ("(T, S, B)", "(T, S, B)"),
    ("(T, S, B)", "(1, S, B)"), ("(B, S), causal inside", "(B, S)"), ("(B, S), causal inside", "(B, 1, 1, S)"),
)  # fmt: skip
"""Usual shapes of the decoder's own mask, and of the mask of the source."""


def _with_required_masks(plan: Plan, every: bool, likely: Sequence[str] = ()) -> Iterator[Plan]:
    """The plan, with a form for every mask that must be given, of each usual polarity and shape.

    every: give all masks that can be given, as there are no probes without. likely: polarities to try first.
    """
    given = [(parameter, name) for parameter, name, needed in plan.mask_parameters if (needed or every) and name]
    sees_all = torch.ones(1, 1, 3, dtype=torch.bool) if "next_logits" in plan.arguments.values() else None
    nameless = {parameter: sees_all for parameter, name, needed in plan.mask_parameters if needed and not name}
    plan = replace(plan, constants={**plan.constants, **nameless})
    if not given:
        yield plan
        return
    if not every:
        free = tuple((parameter, name, False) for parameter, name, _ in plan.mask_parameters)
        yield replace(plan, constants={**plan.constants, **{p: None for p, _ in given}}, mask_parameters=free)
    for polarity in dict.fromkeys((*likely, *NEUTRAL)):
        for wide, narrow in SHAPES:
            shapes = {"src_mask": narrow, "memory_mask": narrow}
            yield plan.with_masks({p: (name, Form(polarity, shapes.get(name, wide))) for p, name in given})


def _find_masks(candidate: Resolved, trial: Trial, tiers: int) -> Score:
    """Sets the forms of all masks by trial. Returns how well the masked probes are explained then."""
    wanted = {name for probe in trial.probes for name in MASKS if probe.inputs.get(name) is not None}
    takers = [(p, name) for p, name, _ in candidate.plan.mask_parameters if name in wanted]
    if not takers:
        return 0, 0.0
    masked = [p for p in trial.probes if any(p.inputs.get(name) is not None for name in MASKS)]
    if len({name for _, name in takers}) == 1:
        return _separate(candidate, trial, takers, masked, tiers)
    return _joint(candidate, trial, takers, masked, tiers)


def _separate(
    candidate: Resolved, trial: Trial, takers: list[tuple[str, str]], masked: list[Probe], tiers: int
) -> Score:
    """One canonical mask: each parameter that can take it by itself; the best first."""
    start, results = candidate.plan, []
    for parameter, name in takers:
        others = {p: taken for p, taken in start.masks.items() if p != parameter}
        options = [
            {**others, parameter: (name, form)} for form in forms(parameter, candidate.plan.order != "sequence first")
        ]
        results.append((*_best(candidate, trial, start, options, masked, tiers), parameter))
    results.sort(key=lambda result: result[0])
    chosen = {parameter: masks[parameter] for (tier, *_), masks, parameter in results if tier < NOTHING and masks}
    if not chosen:
        chosen = results[0][1]
    candidate.plan = start.with_masks(chosen)
    return results[0][0][0], results[0][0][2]


def _joint(candidate: Resolved, trial: Trial, takers: list[tuple[str, str]], masked: list[Probe], tiers: int) -> Score:
    """Several canonical masks: all in one form, else every combination of the shapes that do not crash."""
    start = candidate.plan
    as_before = [dict(start.masks)] if {p for p, _ in takers} <= start.masks.keys() else []
    alike = [{p: (name, form) for p, name in takers} for form in forms(takers[0][0], start.order != "sequence first")]
    same = [*as_before, *alike]
    rank, masks = _best(candidate, trial, start, same, masked, tiers)
    if rank[0] >= NOTHING:
        shapes = ("(B, 1, T, S)", "(B, 1, 1, S)", "(B, S)", "(T, S)", "(B, T, S)", "(B, 1, S)")
        mixed = [
            {p: (name, Form(polarity, shape)) for (p, name), shape in zip(takers, combination, strict=True)}
            for polarity in NEUTRAL
            for combination in itertools.product(shapes, repeat=len(takers))
            if len(takers) < 4
        ]
        rank, masks = min(
            (rank, masks), _best(candidate, trial, start, mixed[:150], masked, tiers), key=lambda pair: pair[0]
        )
    candidate.plan = start.with_masks(masks)
    return rank[0], rank[2]


Rank = tuple[int, int, float]


def _best(
    candidate: Resolved,
    trial: Trial,
    start: Plan,
    options: list[dict[str, tuple[str, Form]]],
    masked: list[Probe],
    most: int,
) -> tuple[Rank, dict[str, tuple[str, Form]]]:
    """The option that explains most, (tier, probes left out, error) and its masks."""
    ranked: list[tuple[Rank, int]] = []
    chosen: Sequence[int] = range(len(options))
    best: tuple[Rank, int] = (NOTHING + 1, 0, float("inf")), 0
    for tiers in (0, MISTAKEN, NOTHING):
        explained, left_out = best[0][0] < NOTHING, best[0][1]
        if tiers > most and not (explained and left_out):
            break
        if tiers == NOTHING:  # forms that express more than what is explained already
            others = [entry for entry in ranked if entry[0][0] >= NOTHING and (not explained or entry[0][1] < left_out)]
            chosen = [index for _, index in sorted(others)[:MOST_MISTAKEN_MASKS]]
        ranked = [best] if best[0][0] < NOTHING else []
        for index in chosen:
            candidate.plan = start.with_masks(options[index])
            usable = [probe for probe in masked if candidate.accepts(probe.inputs)]
            if usable:
                tier, error = trial.score(candidate, usable, tiers)
                ranked.append(((tier, len(masked) - len(usable), error), index))
                if len(usable) == len(masked) and (tier == 0 or (tiers == 0 and tier < NOTHING)):
                    break
        best = min(ranked, default=best, key=_order)
        if not ranked or (best[0][0] < NOTHING and best[0][1] == 0):
            break
    candidate.plan = start
    return best[0], options[best[1]] if ranked else {}


def _order(entry: tuple[Rank, int]) -> tuple[int, int, int, float, int]:
    """A form that can express all masks goes before one that cannot, even if only a mistake explains its outputs."""
    (tier, left_out, error), index = entry
    return tier if tier >= NOTHING else 0, left_out, tier, error, index


# ---- Weights ----


def probes_for(candidate: Resolved, probes: Sequence[Probe]) -> list[Probe]:
    """Those that can be given."""
    return [probe for probe in probes if candidate.accepts(probe.inputs)]


def _find_weights(
    candidate: Resolved, trial: Trial, probes: list[Probe], library: Library, thorough: bool = True
) -> Score:
    """Sets the layout that explains the outputs best: a right design before a mistake, the usual before the unusual."""
    if candidate.module is None or not trial.shapes:
        return trial.score(candidate, probes, library.most_tiers)
    candidate.parameters = Parameters(candidate.module)  # after the first call: lazy modules have their shapes now
    prepare(candidate.module)
    made = align.layouts(candidate.parameters, trial.shapes, trial.settings, library.kind_of_class, library.choices)
    options = list(itertools.islice(made, MOST_LAYOUTS))
    usual = [option for option in options if not option[0]]
    deadline = time.process_time() + SECONDS
    rounds: tuple[tuple[list[tuple[str, Layout]], int], ...] = ((usual[:6], MISTAKEN),)
    if thorough:
        rounds = ((usual, MISTAKEN), (options, MISTAKEN))
    if thorough and library.thorough:
        rounds = (rounds[0], (usual[:MOST_MISTAKEN], NOTHING), rounds[1], (options[:MOST_MISTAKEN], NOTHING))
    found, tried = None, options
    for tried, tiers in rounds:
        found = _best_layout(candidate, trial, probes, tried, tiers, deadline)
        if found is not None and found[0][0] < NOTHING:
            break
    if found is None or not options:
        return trial.score(candidate, probes, library.most_tiers)
    score, index, words = found
    candidate.layout = tried[index][1]
    candidate.update_missing()
    if words and score[0] < NOTHING:
        candidate.notes.append(words[0].upper() + words[1:] + ".")
    return score


def _best_layout(
    candidate: Resolved,
    trial: Trial,
    probes: list[Probe],
    options: list[tuple[str, Layout]],
    tiers: int,
    deadline: float,
) -> tuple[Score, int, str] | None:
    """The layout that explains most, of those with the fewest missing weights."""
    ranked: list[tuple[tuple[int, int, int], Score, int]] = []
    for index, (_, layout) in enumerate(options):
        candidate.layout = layout
        candidate.update_missing()
        score = trial.score(candidate, probes, tiers)
        ranked.append(((score[0], len(candidate.missing), index), score, index))
        if score[0] == 0 or time.process_time() > deadline:
            break
    if not ranked:
        return None
    _, score, index = min(ranked)
    return score, index, options[index][0]


__all__ = ["Inexpressible", "Outcome", "resolve"]
