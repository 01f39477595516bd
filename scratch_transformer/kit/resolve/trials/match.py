"""Resolves a class or function: builds it in all ways that may be meant, and calls it in all ways that it may take."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from types import FunctionType
from typing import TYPE_CHECKING, Any

from torch import nn

from scratch_transformer.kit import clock
from scratch_transformer.kit.definitions import reads
from scratch_transformer.kit.judge.frames import CalledOtherwise
from scratch_transformer.kit.kind import ONE_LENGTH, Kind
from scratch_transformer.kit.kinds.decoding import EOS
from scratch_transformer.kit.resolve import fitness, guess
from scratch_transformer.kit.resolve.build import asked, construct, inside, instance, wired
from scratch_transformer.kit.resolve.build.config import Unknown
from scratch_transformer.kit.resolve.build.finish import finish
from scratch_transformer.kit.resolve.build.limits import limited
from scratch_transformer.kit.resolve.build.tokenizer import is_tokenizer
from scratch_transformer.kit.resolve.call import batching, caching, calling, forwards, smoothing
from scratch_transformer.kit.resolve.call.plan import OF_HEADS, SENTENCES, SHIFTED, CannotCall, Plan
from scratch_transformer.kit.resolve.call.precision import double
from scratch_transformer.kit.resolve.candidate import Resolved
from scratch_transformer.kit.resolve.functions import (
    decoders,
    mask_functions,
    methods,
    rotations,
    schedules,
    surroundings,
    training,
)
from scratch_transformer.kit.resolve.functions.readings import readings
from scratch_transformer.kit.resolve.functions.weighted import Weighted
from scratch_transformer.kit.resolve.library import around, supplied
from scratch_transformer.kit.resolve.names.inputs import input_of
from scratch_transformer.kit.resolve.trial import NOTHING
from scratch_transformer.kit.resolve.trials import along, paddings, probing
from scratch_transformer.kit.resolve.trials.outcome import Outcome, farther, raised
from scratch_transformer.kit.resolve.trials.planned import planned
from scratch_transformer.kit.resolve.weights.besides import network_of
from scratch_transformer.kit.resolve.weights.layout import prepare
from scratch_transformer.kit.resolve.weights.units import is_repeated, lone_attention, single_layers

if TYPE_CHECKING:
    from scratch_transformer.kit.resolve.library.library import Library


PADS = {"pad", "src_pad", "tgt_pad"}
SPECIAL = (*batching.AXES, caching.TOKENWISE, OF_HEADS)
"""Orders of dimensions that are tried where no usual one fits."""
MOST_NUMBERS = 30_000_000
MOST_STOPS = 2
"""Ways to call in which one length is refused, before sequences of another are tried."""
LEAST_TRIED = 2
"""Ways to call, of which the first may stop, however little time is left: forward(x, y) may take memory first."""
MOST_SUPPLIED = 3
"""Parts of one component that the reference may stand in for."""
UNUSABLE = "Its {} cannot be used"
"""What is said of such a part that stops, beside why."""
MOST_REPLACED, LEAST_SECONDS = 3, 1.0
"""Times and seconds of computing, for a component whose unclear parts the reference stands in for."""


def resolve(thing: Any, kind: Kind, library: Library, settings: Mapping[str, Any] | None = None) -> Outcome:
    """A class, an instance or a function as a candidate of this kind, or why it cannot be one.

    What stops in all ways is tried once: it has no numbers, in which mistakes could be looked for the next time.
    """
    asked_for = thing, kind.name, *library.stand_ins.items(), library.gives_targets
    if settings is None and asked_for in library.stopped:
        return library.stopped[asked_for]
    before = library.answers
    best = _with_parts(thing, kind, library, settings)
    if settings is None and library.answers == before and not library.is_late:
        library.stopped[asked_for] = best
    return best


def _with_parts(thing: Any, kind: Kind, library: Library, settings: Mapping[str, Any] | None) -> Outcome:
    """The same; where a part of it is missing or broken, the reference takes the part's place."""
    best = _resolved(thing, kind, library, settings)
    if best.candidate is not None and best.score[0] >= library.most_tiers and not library.supplied:
        again = _without_sublayers_inside(best, thing, library, settings)
        if again is None and not library.thorough:  # first the mistakes that an unclear part may have are looked for
            return best
        again = again or _without_its_network(best, thing, library, settings)
        return again or _without_unclear_parts(best, thing, library, settings)
    is_open = kind.name.endswith("Attention") and bool(best.unknown)  # what it was not given may be what stops it
    is_lent = isinstance(thing, type) and best.candidate is None and not is_open
    fault = library.at_fault(best.error, thing) if is_lent else None
    if fault is not None:
        best = _with_reference(fault, best, thing, library, settings)
    if best.candidate is None and best.stage == "called" and isinstance(thing, type) and not library.supplied:
        return _without_unclear_parts(best, thing, library, settings)  # what one returns may be what stops it
    return best


def _with_reference(
    fault: tuple[str, Any, str], best: Outcome, thing: Any, library: Library, settings: Mapping[str, Any] | None
) -> Outcome:
    """The same with the reference in place of the part that an error happened in, if it can be called then."""
    kind = best.kind
    if fault[0] in library.supplied or len(library.supplied) >= MOST_SUPPLIED or library.is_late:
        return best
    why = raised("it", best.error).removeprefix("it stops with ")
    conventions, two = library.conventions(*fault[1:]), supplied.returns_two(fault[1])
    for is_alone, pair in itertools.product(conventions, (two, not two)):  # two things, as a batch of two can be taken
        with library.supplying(*fault, {**kind.complete(settings or {})}, pair, is_alone):
            again = resolve(thing, kind, library, settings)
        if again.candidate is None and isinstance(again.error, CalledOtherwise):
            return again  # with the part mended, it stops for this
        if again.candidate is None or not again.beats(best) or _is_hollow(again.candidate.made, fault[2], kind):
            continue
        note = f"{UNUSABLE.format(fault[0])} ({why}); the reference's was put in its place."
        again.candidate.limits.append(note)
        again.candidate.replaced.append(fault[0])
        best = again
        if best.score[0] < NOTHING and (len(conventions) == 1 or not _adds_twice(again.candidate)):
            break
    return best


def _adds_twice(candidate: Resolved) -> bool:
    """Whether it adds to what is added already: with a part that is not known, that may be the stand-in's doing."""
    return candidate.explained is not None and candidate.explained.adding == "twice"


def _is_hollow(made: Any, part: str, kind: Kind) -> bool:
    """Whether the reference's is all that it has: a stack of layers in place of the stack, or in its embeddings."""
    own = around.within(made)
    if not isinstance(own, nn.Module) or (own is made and not guess.are_related(part, kind.name)):
        return False
    lent = {id(p) for module in own.modules() if isinstance(module, supplied.Supplied) for p in module.parameters()}
    return all(id(values) in lent for values in own.parameters())


def _without_unclear_parts(best: Outcome, thing: Any, library: Library, settings: Mapping[str, Any] | None) -> Outcome:
    """What it is with the reference in place of those parts that nothing explains, if that explains the rest."""
    as_well = [(kind, tiers) for other, kind, tiers in library.replaced if other is thing]
    times = sum(tiers == library.most_tiers for _, tiers in as_well)  # without looking for mistakes, or with
    unclear = library.unclear_parts(thing) if times < MOST_REPLACED else {}
    if not unclear or (library.is_late and best.kind.name in dict(as_well)):
        return best
    library.replaced.append((thing, best.kind.name, library.most_tiers))
    library.deadline = max(library.deadline, clock.now() + (0.0 if library.hurries else LEAST_SECONDS))
    groups = [unclear] if best.candidate is not None else [{part: kind} for part, kind in unclear.items()]
    for group in groups[:MOST_REPLACED]:
        again = _without(group, best, thing, library, settings)
        if again is not None:
            return again
    return best


def _without_sublayers_inside(
    best: Outcome, thing: Any, library: Library, settings: Mapping[str, Any] | None
) -> Outcome | None:
    """What it is without the residual and norm that are inside a part, and that it has around that too."""
    whole = library.whole_sublayers(thing) if isinstance(thing, type) else {}
    again = _without(whole, best, thing, library, settings) if whole and not library.is_late else None
    if again is not None and again.candidate is not None:
        names = again.candidate.added_twice = tuple(dict.fromkeys(part.__name__ for part in whole))
        unclear = [limit for limit in again.candidate.limits if limit.startswith("Nothing explains")]
        again.candidate.limits = [limit for limit in again.candidate.limits if limit not in unclear]
        again.candidate.limits.append(f"It is judged with the reference's in place of its {' and '.join(names)}.")
    return again


def _without_its_network(
    best: Outcome, thing: Any, library: Library, settings: Mapping[str, Any] | None
) -> Outcome | None:
    """What a model is without the network that it has besides its layers, if that explains the rest."""
    module = best.candidate.module if best.candidate is not None else None
    if best.kind.name not in forwards.MODELS or module is None or library.hurries or not network_of(module):
        return None
    library.deadline = max(library.deadline, clock.now() + LEAST_SECONDS)
    library.leaves_out = True
    try:
        again = _resolved(thing, best.kind, library, settings)
    finally:
        library.leaves_out = False
    return again if again.candidate is not None and again.score[0] < library.most_tiers else None


def _without(
    parts: Mapping[type, str], best: Outcome, thing: Any, library: Library, settings: Mapping[str, Any] | None
) -> Outcome | None:  # fmt: skip
    """The same with the reference in place of these parts; None if that explains nothing, or is all there is."""
    conventions = [library.conventions(part, kind) for part, kind in parts.items()]
    doubtful = any(len(each) > 1 for each in conventions)
    for choice in (0, -1) if doubtful else (0,):
        with ExitStack() as replaced:
            for (part, kind), alone in zip(parts.items(), conventions, strict=True):
                own, pair = {**best.kind.complete(settings or {})}, supplied.returns_two(part)
                replaced.enter_context(library.supplying(part.__name__, part, kind, own, pair, alone[choice]))
            again = _resolved(thing, best.kind, library, settings)
        if again.candidate is None or again.score[0] >= library.most_tiers:
            continue
        if not doubtful or not _adds_twice(again.candidate):
            break
    if again.candidate is None or again.score[0] >= library.most_tiers:
        return None
    if any(_is_hollow(again.candidate.made, kind, best.kind) for kind in parts.values()):
        return None
    for name in dict.fromkeys(part.__name__ for part in parts):
        again.candidate.limits.append(f"Nothing explains its {name}: it is judged with the reference's in that place.")
        again.candidate.replaced.append(name)
    return again


def _resolved(thing: Any, kind: Kind, library: Library, settings: Mapping[str, Any] | None) -> Outcome:
    best = Outcome(kind)
    wanted = library.as_its_parts(thing, list(asked.settings(thing, kind, settings)), settings)
    for some in wanted:
        best, is_last = _with_settings(best, thing, kind, library, some)
        if is_last:
            return best
        knows_heads = ("num_heads" in best.used or asked.has_heads(thing)) and not asked.is_one_head(thing)
        if best.score[0] < NOTHING or (knows_heads and best.form != "narrow"):
            break
    if best.candidate is None and isinstance(thing, type) and not settings:
        return _of_its_size(best, thing, library)
    return best


def _of_its_size(
    best: Outcome, thing: Any, library: Library, base: Mapping[str, Any] | None = None, known: str = ""
) -> Outcome:
    """What works with one width alone, with that or with ours in its place; the same if that cannot be found.

    base, known: where another size was replaced already, the settings and the note on that.
    """
    asked_for = base or next(iter(asked.settings(thing, best.kind, None)))
    refused = wired.refused_heads(best.error)  # our sizes were: with others it shows what it stops with itself
    for wanted, said in wired.otherwise(best.error, thing, asked_for):
        note, last = f"{known} {said}".strip(), best
        for outcome in _attempts(thing, best.kind, library, wanted):
            lengths = wired.lengths(outcome.error, wanted) if outcome.candidate is None else ()
            again = _of_one_length(lengths, thing, best.kind, library, wanted) if lengths else None
            outcome = again if again is not None and again.candidate is not None else outcome
            if outcome.candidate is not None:
                library.rewritten |= {thing: note} if note else {}
                return outcome  # the code stays as it is now: it is called again
            last = outcome
            if library.is_late:
                break
        if base is None and not library.is_late:
            again = _of_its_size(last, thing, library, wanted, note)
            if again.candidate is not None:
                return again
        if refused and last.error is not None and not wired.refused_heads(last.error):
            best, refused = last, False
    return best


def _of_one_length(
    lengths: Sequence[int], thing: Any, kind: Kind, library: Library, settings: dict[str, Any], written: int = 0
) -> Outcome | None:
    """What works with sequences of its longest length alone, called with such; None if nothing explains that.

    written: that length, where it is a number in the code: one of ours is put in its place.
    """
    best, undo = None, None
    for length in lengths[:1] if written else lengths:
        if written:
            undo, note = wired.with_length(thing, written, length)
            library.rewritten |= {thing: note}
        library.one_length = True
        try:
            for outcome in _attempts(thing, kind, library, {**settings, "max_len": length}):
                if outcome.candidate is not None and outcome.beats(best):
                    best = outcome
                if (best is not None and best.score[0] < library.most_tiers) or library.is_late:
                    break
        finally:
            library.one_length = False
        if best is not None and best.score[0] < NOTHING:
            break
    if undo is not None and (best is None or best.candidate is None):
        undo()
        library.rewritten.pop(thing)
    if best is not None and best.candidate is not None:
        best.candidate.limits.append(ONE_LENGTH)
        best.candidate.one_length = True
    return best


def _with_settings(
    best: Outcome, thing: Any, kind: Kind, library: Library, settings: dict[str, Any]
) -> tuple[Outcome, bool]:
    """The best of all ways to build and call it with these settings, and whether to look no further."""
    is_tried = library.one_length
    for outcome in _attempts(thing, kind, library, settings):
        lengths = () if is_tried else _lengths(outcome, settings)
        written = (
            0 if is_tried or outcome.candidate is not None else wired.written_length(outcome.error, thing, settings)
        )
        if lengths or written:
            is_tried = True
            alike = _of_one_length(lengths or wired.longest(settings), thing, kind, library, settings, written)
            if alike is not None and alike.candidate is not None:
                alike.candidate.stopped = outcome.error
            is_better = alike is not None and (alike.score[0] < NOTHING or outcome.candidate is None)
            if alike is not None and alike.form == "right" and library.has_mistakes_within(alike.made):
                return alike, True  # they are tried together where mistakes are looked for
            outcome = alike if alike is not None and is_better else outcome
        if outcome.beats(best if best.candidate or best.problem else None):
            best = outcome
        if best.score[0] < library.most_tiers or library.is_late:
            return best, True
    return best, False


def _lengths(outcome: Outcome, settings: Mapping[str, Any]) -> tuple[int, ...]:
    """Of the longest sequence, for what stops with another, or fills every other up to that."""
    if outcome.candidate is None:
        return wired.lengths(outcome.error, settings)
    if outcome.score[0] < NOTHING or outcome.form != "wrong" or "ids" not in outcome.kind.inputs:
        return ()
    return wired.longest(settings) if probing.is_filled_up(outcome.candidate, settings) else ()


def _attempts(thing: Any, kind: Kind, library: Library, settings: dict[str, Any]) -> Iterator[Outcome]:
    """By its constructor; if nothing comes of that, by methods of its own that make one."""
    fits = False
    for outcome in _constructed(thing, kind, library, settings):
        fits = fits or outcome.candidate is not None
        outcome.asked = settings
        yield outcome
    for make in () if fits else forwards.makers(thing, kind):
        yield from _constructed(make, kind, library, settings)


def _constructed(thing: Any, kind: Kind, library: Library, settings: dict[str, Any]) -> Iterator[Outcome]:
    if kind.name in training.KINDS:
        settings = settings | training.told(thing, kind, settings)
        yield from _called(training.reading(thing, kind, settings, library.resolved), kind, library, settings, {})
        return
    if kind.name in schedules.KINDS:
        settings = settings | (schedules.told(thing, settings) if "min_lr" in settings else {})
        if schedules.is_maker(thing):
            try:
                made = schedules.made_by(thing, settings)
            except Exception as error:  # the learner's code may raise anything
                yield Outcome(kind, problem=raised("it", error), error=error)
                return
            yield from _called(made, kind, library, settings, {})
            return
    if not isinstance(thing, type) and not forwards.is_factory(thing, kind):
        library.set_globals(thing, settings)
        told = schedules.with_its_ends(thing, settings) if kind.name in schedules.KINDS else thing
        for made in readings(told, kind, settings):
            yield from _called(made, kind, library, settings, {})
        return
    failed: list[construct.Attempt] = []
    called: set[tuple[Any, ...]] = set()
    around = schedules.around(thing, settings) if kind.name in schedules.KINDS else {}
    given = {**around, **library.given}
    try:
        for attempt in construct.attempts(
            thing, settings, library.namespace_of(thing), library.parts(kind, thing), given, "memory" in kind.inputs
        ):
            pads = library.set_globals(thing, settings)
            if library.is_late and failed:
                break
            try:
                with double(), limited(MOST_NUMBERS):
                    made = attempt.build()
            except Exception as error:
                library.hear(error)
                made = _built_inside(attempt, thing, library, settings)
                if made is None:
                    failed.append(attempt)
                    continue
            if isinstance(made, (int, float)):
                yield Outcome(kind, problem="it gives a number")
                return
            library.note_size(made)
            alike = attempt.alike(made)
            if alike not in called:
                ways = mask_functions.of_made(made, kind, settings.get("pad", 0))
                told = {**pads, **attempt.used}
                for outcome in itertools.chain(*(_called(one, kind, library, settings, told) for one in ways)):
                    if outcome.candidate is not None:
                        called.add(alike)
                        outcome.candidate.limits += filter(None, [attempt.classes])
                        outcome.candidate.bare = attempt.bare
                    yield outcome
    except Unknown as error:
        known = "" if "," in str(error) else ", and no value for that is known"
        yield Outcome(kind, problem=f"its constructor takes {error}{known}", error=error)
        return
    if failed:  # the one that came farthest says most
        best = max(failed, key=lambda attempt: attempt.reached)
        yield Outcome(kind, problem=raised("its constructor", best.error), error=best.error)


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
    first = int(kind.name not in calling.OF_STEPS)
    made = schedules.of_steps(made, first) if schedules.is_schedule(type(made)) else forwards.held(made)
    if around.of_vectors(made, kind, {**kind.defaults, **settings}):
        told = {name: settings.get(name, value) for name, value in kind.defaults.items()}
        made = around.Around(made, told, around.writes(made, kind, told))
    made = smoothing.with_cross_entropy(made, kind)
    finished = finish(made)
    if isinstance(made, nn.Module):
        prepare(made)
    today = kind.today
    if today is not None and (fitness.speaks_of_today(made) or library.is_of_today(made)):
        kind, settings = today, {"rope_base": today.defaults["rope_base"], **settings}
    mixed = instance.with_one_eps(made)
    function = forwards.forward_of(made, kind)
    if kind.name == "RotaryEmbedding":
        function = rotations.as_turning(made, {**kind.defaults, **settings}, library.hear) or function
    actual = instance.settings_of_instance(made, kind, settings, used)
    if "num_layers" in actual and isinstance(made, nn.Module):  # however many it was told to make
        alone = single_layers(made, library.kind_of_class)
        is_alone = alone and not any(is_repeated(made, path) for path in alone)
        actual |= {"num_layers": 1} if is_alone or lone_attention(made, library.kind_of_class) else {}
    if "knows_eos" in kind.defaults:
        names = [p.name for p in construct.parameters_of(function)]
        reads_ids = any(map(is_tokenizer, names)) or surroundings.has_tokenizer(function)
        asks = reads_ids and decoders.asks_for_end(function)
        asks = asks or EOS in decoders.ends_in(function).values() or EOS in methods.ends_of(function)
        actual["knows_eos"] = asks or any(input_of(name, ("eos",)) for name in names)
    if "takes_positions" in kind.defaults:
        names = [p.name for p in construct.parameters_of(function)]
        has_tables = {"cos", "sin"} <= {*names}  # of the positions already: what it never reads is left over
        names = [name for name in names if not has_tables or reads(function, name)]
        actual["takes_positions"] = any(input_of(name, ("positions",)) for name in names)
    problem: Outcome | None = None
    forms: set[str] = set()
    stops, tried, fitting = 0, 0, ""  # the order of dimensions that first gave an output of the right form
    try:
        is_function = not isinstance(made, nn.Module) or isinstance(made, Weighted)
        keeps = not is_function and caching.keeps(made)
        orders = calling.orders(kind, is_function, keeps, calling.is_of_rows(function))
        orders = along.likely_first(orders, made)
        if kind.name == "PositionalEncoding" and not is_function and not library.is_called_by_module(type(made)):
            orders = (*orders, OF_HEADS)  # where a class calls it, that shows what it takes
        tables = library.tables_and_turning(function, actual)
        plans = calling.plans(function, kind.inputs, actual, orders, tables)
        plans = (plan for plan in plans if plan.gives_targets or not library.gives_targets)
        probes = library.trial(kind, actual, made).probes
        for plan in _with_masks_turned(probing.distinct(plans, function, probes), forms):
            takes_batches = not is_function or library.is_called_by_module(made)
            if "right" in forms and takes_batches and plan.order in SPECIAL and plan.order != fitting:
                continue
            hidden = {} if used.keys() & PADS else paddings.found(made, function, kind, actual, plan)
            outcome = planned(made, function, kind, library, actual | hidden, plan)
            if plan.order == batching.IN_A_BATCH and problem is not None and outcome.score[0] >= NOTHING:
                break  # what it stops with says more than numbers that nothing explains
            outcome.used, outcome.made = used, made
            asked_for, has = used.get("num_layers"), actual.get("num_layers")
            if outcome.candidate is not None and asked_for and has and asked_for != has:
                outcome.candidate.notes.append(f"It was told to make {asked_for} layers, and has {has}.")
            if outcome.candidate is not None and hidden:
                ids = " and ".join(f"{id} ({name})" for name, id in hidden.items())
                outcome.candidate.notes.append(f"It hides this id as padding, whatever it is told: {ids}.")
            if outcome.candidate is not None and kind.name == "RotaryEmbedding" and isinstance(made, FunctionType):
                sizes = [{**kind.defaults, **actual}[name] for name in ("max_len", "d_k", "rope_base")]
                outcome.candidate.tables_of_its_file = functools.partial(rotations.of_its_file, made, *sizes)
            if outcome.candidate is not None:
                outcome.candidate.limits += filter(None, (mixed, getattr(made, "said", "")))
            forms |= {outcome.form} if outcome.candidate is not None else set()
            fitting = fitting or plan.order if outcome.form == "right" else fitting
            if outcome.candidate is not None:
                outcome.candidate.notes += finished
                yield outcome
            else:
                problem = _says_more(problem, outcome, plan, made)
                stops += bool(wired.lengths(outcome.error, settings))
                if stops == MOST_STOPS and not forms:
                    yield problem  # before time is up: sequences of its longest length may be all that it needs
            tried += 1
            if library.is_late and (forms or tried >= LEAST_TRIED):
                break
    except (CannotCall, AssertionError) as error:  # the reference refuses such sizes: 3 heads for d_model = 17
        problem = Outcome(kind, stage="called", problem=str(error), error=error)
    if problem is not None:
        if not forms:
            yield from _along_the_length(problem, made, kind, library, settings, used)
        yield problem


def _along_the_length(
    problem: Outcome, made: Any, kind: Kind, library: Library, settings: dict[str, Any], used: Mapping[str, Any]
) -> Iterator[Outcome]:  # fmt: skip
    """What stops in all ways as torch's attention goes along the first dimension, and runs with it along the second."""
    undo = None if library.is_late else along.turn(made)
    for outcome in _called(made, kind, library, settings, used) if undo is not None else ():
        if outcome.candidate is not None and outcome.score[0] < NOTHING:
            outcome.candidate.stops_along = problem.error
            yield outcome
            return  # they stay turned: it is called again
    if undo is not None:
        undo()


def _says_more(before: Outcome | None, outcome: Outcome, plan: Plan, made: Any) -> Outcome:
    """Of two that stop, the first; the second where it comes farther with one token at a time, or with sentences."""
    if before is None or outcome.error is None or plan.order not in (caching.TOKENWISE, SENTENCES, SHIFTED):
        return before or outcome
    return outcome if farther(before.error, outcome.error, made) is outcome.error else before


def _with_masks_turned(plans: Iterator[Plan], forms: set[str]) -> Iterator[Plan]:
    """Ways to call; if none of them could be called, the first with its masks the other way round.

    forms: of the outputs of those that could.
    """
    first: Plan | None = None
    for plan in plans:
        first = first or plan
        yield plan
    if first is not None and not forms:
        yield from calling.reassigned(first)
