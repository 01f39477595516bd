"""The search for the recipe that reproduces a candidate: right ones first, then one mistake, then two."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from scratch_transformer.kit import clock
from scratch_transformer.kit.judge.bypassed import bypassed
from scratch_transformer.kit.judge.changes import (
    FILLS,
    ORDERS,
    TOGETHER,
    changes_of,
    evident,
    forms_of,
    of_bare_sublayers,
    of_kept_eps,
    of_parts,
    of_sublayers,
    on_their_sides,
    subsets,
    untold,
)
from scratch_transformer.kit.judge.designs import (
    Design,
    against,
    as_far_as_shown,
    of_session,
    over_tokens,
    shown_by,
)
from scratch_transformer.kit.judge.fits import fitted
from scratch_transformer.kit.judge.places import (
    PLACES,
    SUBLAYERS,
    Change,
    apart,
    by_side,
    compatible,
    in_a_sublayer,
    merged,
)
from scratch_transformer.kit.judge.session import EXACT, ROUNDED, Session
from scratch_transformer.kit.judge.several import of_attention, of_rotation, of_small_bases
from scratch_transformer.kit.kind import LAYERS, NO_MASK, Diagnosis
from scratch_transformer.kit.recipe import RIGHT, Parts, Recipe

EMPTYING = {"causal", "softmax_over", "weighing", "padding", "roles", "source_mask"}
"""Mistakes that can leave a row without keys; what becomes of it depends on what blocked scores are filled with."""

ROUNDING, NEARLY, MUCH = 1e-14, 1e-2, 0.1
"""Largest error of what is computed in one way, and the shares of an error that are much less than it, and less."""
SECONDS = 3.0
MOST_DESIGNS = 12
"""Designs that are combined with mistakes in their own order; of more, those that the parts show, and the nearest, go
first: there may be no time for all."""

MOST_KNOWN = 8
"""Combinations of the parts' mistakes that are tried in one sublayer alone."""
OF_IDS = ("E2", "P12", "P13")
"""What is done or forgotten with the ids of one language alone, though both have one class of positions."""
OF_ONE_SIDE = ("P13",)
"""What is a design of its own where it is so on both sides."""
LIKELIEST, MOST_LIKELY, MOST_NEAR = 2, 4, 48
"""Designs that are combined with one mistake besides the parts', before others are, and of what was tried before; those
that are combined with mistakes at all."""

PADDING_LOST, GAP = ("A29", "the padding is lost"), "gap"
"""A mistake that goes with any other, and the name of the probe that shows it."""

OF_QUERIES, IGNORED = ("A7", "queries instead of keys"), ("A24", "")
"""Alike where padding's own outputs do not count, and no mask is more than padding."""

SAME = (("the variance", "the variance, squared and its root taken"),)
"""Forms of which the second is the first in more words: it is no other one that the sizes cannot tell apart."""


@dataclass(frozen=True)
class Hypothesis:
    """A design with changes. sides: what is right and differs between encoder and decoder."""

    design: str
    changes: tuple[Change, ...] = ()
    recipe: Recipe = RIGHT
    sides: Parts = ()

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(change.id for change in self.changes)

    @property
    def changed(self) -> frozenset[str]:
        """The entries that its mistakes have changed everywhere, whatever its design says of them."""
        return frozenset(name for change in self.changes if not change.part for name, _ in change.entries)


@dataclass(frozen=True)
class Match:
    """The hypotheses that reproduce a candidate: the first is the simplest; the others are numerically the same.

    twins: of the first, other forms of its mistakes that its sizes cannot tell apart, by id.
    """

    hypotheses: tuple[Hypothesis, ...] = ()
    error: float = float("inf")
    tried: int = 0
    twins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


Known = Sequence[Diagnosis | str]
"""What is known about a candidate's parts: their diagnoses, or the ids of their mistakes."""


def find(session: Session, parts: Known = (), seconds: float | None = None) -> Match:
    """The simplest explanation of a candidate's outputs: exact, or else up to float32's rounding.

    seconds: of computing, after which to give up trying pairs of mistakes; SECONDS unless given.
    """
    tried, end = 0, clock.now() + (SECONDS if seconds is None else seconds)
    if session.is_random:
        return Match()
    session.until = end
    rounded: list[tuple[float, Hypothesis]] = []
    lost = next((c for c in changes_of(session.kind) if (c.id, c.form) == PADDING_LOST), None)
    for is_last, tier in _tiers(session, parts):
        if is_last and rounded:
            break
        found: list[tuple[float, Hypothesis]] = []
        design = None
        for hypothesis in _distinct(tier):
            if (found and hypothesis.design != design) or clock.now() > end:
                break
            tried, design = tried + 1, hypothesis.design
            clock.count(clock.HYPOTHESIS)
            error = session.error(hypothesis.recipe, stop_above=ROUNDED)
            if error > ROUNDED and lost is not None and session.failed == GAP:
                hypothesis = _and(hypothesis, lost)
                error = session.error(hypothesis.recipe, stop_above=ROUNDED)
            if error <= EXACT:
                found.append((error, hypothesis))
            elif error <= ROUNDED:
                rounded.append((error, hypothesis))
        if found:
            return _chosen(session, found, tried)
    least = [_least(session, error, hypothesis) for error, hypothesis in rounded]
    exact = [(error, hypothesis) for error, hypothesis in least if error <= EXACT]
    rounded = exact or [(error, hypothesis) for error, hypothesis in least if error <= ROUNDED]
    return _chosen(session, rounded, tried) if rounded else Match(tried=tried)


def _least(session: Session, error: float, hypothesis: Hypothesis) -> tuple[float, Hypothesis]:
    """Without the mistakes that rounding hides, or that explain nothing: those without which it agrees about as well.

    An ε outside of the root, say, where nobody has tried another ε in it before the time was up.
    """
    limit = error / MUCH
    for change in (one for one in hypothesis.changes if not one.part):
        recipe = _undone(session, hypothesis, change)
        without = session.error(recipe, stop_above=limit)
        if without <= limit:
            others = tuple(one for one in hypothesis.changes if one is not change)
            return _least(session, without, replace(hypothesis, changes=others, recipe=recipe))
    return error, hypothesis


def _undone(session: Session, hypothesis: Hypothesis, change: Change) -> Recipe:
    """Its recipe without one of its changes, as its design has that."""
    right = RIGHT.with_(session.kind.designs.get(hypothesis.design, {}))
    return hypothesis.recipe.with_({name: getattr(right, name) for name, _ in change.entries})


def _and(hypothesis: Hypothesis, change: Change) -> Hypothesis:
    recipe = hypothesis.recipe.with_(dict(change.entries))
    return replace(hypothesis, changes=(*hypothesis.changes, change), recipe=recipe)


def _chosen(session: Session, found: list[tuple[float, Hypothesis]], tried: int) -> Match:
    """Those with the smallest error, the simplest first."""
    best = min(error for error, _ in found)
    limit = EXACT if best <= EXACT else 10 * best
    chosen = [hypothesis for error, hypothesis in found if error <= limit]
    rivals = [rival for one in chosen for rival in _rivals(session, one)]
    chosen += [rival for rival in rivals if session.error(rival.recipe, stop_above=limit) <= limit]
    if len({hypothesis.ids for hypothesis in chosen}) > 1:  # where outputs don't count they may tell them apart
        errors = [session.error(hypothesis.recipe, everywhere=True) for hypothesis in chosen]
        chosen = [h for h, error in zip(chosen, errors, strict=True) if error <= max(limit, 10 * min(errors))]
    first = _closest(session, chosen[0], found)
    if not first.sides:
        design = as_far_as_shown(session.kind, first.design, first.recipe, first.changed)
        first = replace(first, design=design)
    others = {h.ids: h for h in reversed(chosen) if not set(h.ids) >= set(first.ids)}  # none that only supposes more
    return Match((first, *others.values()), best, tried, _twins(first, [h for h in chosen if h.ids == first.ids]))


def _closest(session: Session, first: Hypothesis, found: Sequence[tuple[float, Hypothesis]]) -> Hypothesis:
    """Another form of one of its mistakes, where that agrees much better: what is filled with 1e-9 is nearly 0."""
    own = next((error for error, hypothesis in found if hypothesis is first), 0.0)
    for change in (one for one in first.changes if own > ROUNDING and not one.part):
        undone = _undone(session, first, change)
        for other in forms_of(changes_of(session.kind), change.id):
            recipe = undone.with_(dict(other.entries))
            if other != change and session.error(recipe, stop_above=NEARLY * own) < NEARLY * own:
                return replace(first, changes=tuple(other if c is change else c for c in first.changes), recipe=recipe)
    return first


def _rivals(session: Session, hypothesis: Hypothesis) -> Iterator[Hypothesis]:
    """The mask is ignored, where it was said to hide queries, or hides them: what those attend to does not count."""
    for own, others in (OF_QUERIES, IGNORED), (IGNORED, OF_QUERIES):
        other = next((c for c in changes_of(session.kind) if (c.id, c.form) == others), None)
        change = next((c for c in hypothesis.changes if (c.id, c.form) == own), None)
        if other is None or change is None or other.id in hypothesis.ids:
            continue
        changes = tuple(other if c is change else c for c in hypothesis.changes)
        undone = {name: getattr(RIGHT, name) for name, _ in change.entries}
        for fill in FILLS if own == IGNORED else (hypothesis.recipe.fill,):
            recipe = hypothesis.recipe.with_({**undone, **dict(other.entries), "fill": fill})
            yield replace(hypothesis, changes=changes, recipe=recipe)


def _twins(first: Hypothesis, alike: Sequence[Hypothesis]) -> dict[str, tuple[str, ...]]:
    """The other forms of the first one's mistakes, among hypotheses of the same mistakes; what has no words is none."""
    twins: dict[str, tuple[str, ...]] = {}
    for change in first.changes:
        forms = [c.form for h in alike for c in h.changes if c.id == change.id and c.form and change.form]
        others = (form for form in dict.fromkeys(forms) if (change.form, form) not in SAME)
        twins[change.id] = tuple(form for form in others if form != change.form)
    return twins


def _tiers(session: Session, parts: Known) -> Iterator[tuple[bool, Iterable[Hypothesis]]]:
    """From what needs the fewest mistakes to what needs the most; with True, what is tried for exact matches only."""
    kind = session.kind
    known = [part for part in parts if isinstance(part, Diagnosis)]
    designs, every = of_session(session, known), changes_of(kind)
    every = [*of_small_bases(every, session.candidate.definition), *every]
    changes = [c for c in every if kind.name not in PLACES or c.id not in OF_ONE_SIDE]
    inherited = of_parts(kind, known)
    base = [*inherited]
    base += evident(session.variants, session.candidate.missing, base)
    eps = of_kept_eps(session, changes)
    base = [change for change in base if not eps or [name for name, _ in change.entries] != ["eps"]]
    for sure in (untold(kind, session.candidate), eps):
        base += [change for change in sure if change.id not in {known.id for known in base}]
    of_output = over_tokens([result.output for result in session.ran if result.output is not None])
    base += [c for c in changes if c.entries == (("output", of_output),) and c.id not in {known.id for known in base}]
    likely = [design for design in designs if session.candidate.shown and not against(design, session.candidate.shown)]
    if base and likely and compatible(base):  # of many designs there may be no time for all
        yield False, with_changes(likely, [()])
        yield False, with_changes(likely, [tuple(base)])
    if len(designs) <= MOST_DESIGNS or not session.candidate.is_tried or session.candidate.explained is not None:
        yield False, with_changes(designs, [()])
    if len(designs) > MOST_DESIGNS:
        designs = _nearest(session, designs, {**shown_by(known), **session.candidate.shown})
    named = [forms_of(changes, part) for part in dict.fromkeys(p for p in parts if isinstance(p, str))]
    found = [*subsets(base), *(c for forms in itertools.product(*filter(None, named)) for c in subsets(forms))]
    found = sorted((c for c in found if c and compatible(c)), key=len, reverse=True)[:200]
    yield False, with_changes(designs, [*filter(None, [on_their_sides(kind, known, base)]), *found[:1]])
    yield False, with_changes(designs, found[1:])
    if kind.name in PLACES:
        alone = [one for change in every for one in apart(kind.name, (change,))]
        of_ids = [(*(found[:1] or [()])[0], *one) for one in alone if one[0].id in OF_IDS]
        yield False, with_changes(designs[:MOST_LIKELY], [c for c in of_ids if compatible(c)])
        yield False, with_changes(designs, [c for whole in found[:1] for c in apart(kind.name, whole)])
    if kind.name == "Transformer":
        yield False, with_changes(list(by_side(designs, session.candidate.missing)), [(), *found[:1]])
    if _is_of_source(session):
        swapped = [(*all_known, change) for all_known in (*found[:1], ()) for change in forms_of(changes, "B25")]
        yield False, with_changes(designs, swapped)
    told = _explained(session, changes)
    near = [d for d in designs if not against(d, session.candidate.shown)] or designs
    if told:
        yield False, with_changes(near, [c for c in (told, *((*known, *told) for known in found)) if compatible(c)])
        otherwise = [
            tuple(other if change is one else one for one in told)
            for change in told
            for other in forms_of(changes, change.id)
            if other != change
        ]
        yield False, with_changes(near[:MOST_LIKELY], otherwise)  # it was told up to rounding, as another ε may be
    if session.candidate.explained is not None:  # with masks, one more may be seen
        besides = [(*told, change) for change in changes if compatible((*told, change))]
        yield False, with_changes(near[:MOST_LIKELY], besides)
    round_norms = bypassed(session.candidate.module)
    bare = list(of_bare_sublayers(kind.name, session.asked, session.candidate.missing, round_norms))
    if bare:
        besides = [(*all_known, *c) for all_known in found[:1] for c in bare]
        yield False, with_changes(designs, [*bare, *(c for c in besides if compatible(c))])
    first = designs[: MOST_LIKELY if session.candidate.is_tried else LIKELIEST if len(designs) > MOST_DESIGNS else 0]
    for all_known in found[:1] if first and (inherited or named) else ():  # without what the parts have, nothing agrees
        one_more = [(*all_known, change) for change in changes if compatible((*all_known, change))]
        yield False, with_changes(first, one_more)
    if kind.name.endswith(LAYERS) and len(designs) > MOST_LIKELY:
        yield False, with_changes(designs[:MOST_LIKELY], [(change,) for change in changes])
        yield True, with_changes(designs[:MOST_LIKELY], list(_in_sublayers(kind.name, changes, found)))
    yield False, with_changes(designs, [(change,) for change in changes])
    fits = fitted(session, [RIGHT.with_(entries) for _, entries in designs])
    yield False, with_changes(designs, [tuple(Change(id, f, tuple(e.items())) for id, f, e in fit) for fit in fits])
    together = [c for ids in TOGETHER for c in itertools.product(*(forms_of(changes, id) for id in ids))]
    yield False, with_changes(designs, together)
    for all_known in found[:1]:
        yield True, with_changes(designs, [(*all_known, c) for c in changes if compatible((*all_known, c))])
    if kind.name in SUBLAYERS:
        yield True, with_changes(designs, list(_in_sublayers(kind.name, changes, found)))
    if kind.name in PLACES:
        yield True, with_changes(designs[:MOST_LIKELY], alone)
    if "R2" in kind.ids and kind.name.endswith(("Attention", "RotaryEmbedding")):
        turned = [*of_rotation(changes, found[0] if found else ()), *(of_rotation(changes) if found else ())]
        yield True, with_changes([design for design in designs if design[1].get("rotary")], turned)
    for one, several in of_attention(session, designs, changes, found[0] if found else ()):
        yield True, with_changes([one], several)
    yield True, with_changes(designs, [pair for pair in itertools.combinations(changes, 2) if compatible(pair)])
    if kind.name in PLACES:
        yield True, with_changes(designs, alone)


def _in_sublayers(
    kind: str, changes: Sequence[Change], found: Sequence[tuple[Change, ...]]
) -> Iterator[tuple[Change, ...]]:
    """What the parts have around one sublayer alone; another order, or sum, in one, alone or beside what is known."""
    known = found[0] if found else ()
    yield from (alone for some in found[:MOST_KNOWN] for alone in in_a_sublayer(kind, some))
    single = list(of_sublayers(kind, changes))
    yield from single
    yield from ((*known, *c) for c in single if known and compatible((*known, *c)))
    likely = [c for c in single if c[0].id in (*ORDERS, "B14")]
    pairs = [(c[0], d[0]) for c, d in itertools.combinations(likely, 2) if c[0].part != d[0].part]
    # each in its own way
    yield from ((c, d) for c, d in pairs if (c.id, c.form) != (d.id, d.form))


def _nearest(session: Session, designs: list[Design], shown: Mapping[str, Any]) -> list[Design]:
    """Those that the parts show, the nearest of them first; then a few that fewer of them show."""
    least = min(against(design, shown) for design in designs)
    first = [design for design in designs if against(design, shown) == least]
    first.sort(key=lambda design: session.near(RIGHT.with_(design[1])))
    rest = [design for design in designs if against(design, shown) > least]
    return [*first, *sorted(rest, key=lambda design: against(design, shown))][: max(MOST_NEAR, len(first))]


def _is_of_source(session: Session) -> bool:
    """Whether there is an output for each of the source's words, and none for each of the target's."""
    if not {"src", "tgt"} <= set(session.kind.inputs):
        return False
    lengths = [(r.probe.inputs["src"].shape[1], r.probe.inputs["tgt"].shape[1], r.output) for r in session.ran]
    return any(S != T and y is not None and y.dim() == 3 and y.shape[1] == S for S, T, y in lengths)


def _explained(session: Session, changes: Sequence[Change]) -> tuple[Change, ...]:
    """The mistakes with which resolving it explained it on some probes; others may show what its parts have besides."""
    recipe = session.candidate.explained
    if recipe is None:
        return ()
    right = RIGHT.with_(session.candidate.shown)
    is_filled = NO_MASK not in session.candidate.limits  # what no mask hides is not
    unseen = {("fill", fill) for fill in (*FILLS, *(() if is_filled else (recipe.fill,)))}  # rows without keys show it
    of_all = [c for c in changes if not c.part and not {*c.entries} <= unseen]
    whole = [c for c in of_all if all(getattr(recipe, n) == v for n, v in c.entries)]
    there = [c for c in whole if any(v != getattr(right, n) for n, v in c.entries)]
    of_sublayers = [
        replace(c, part=part)
        for part, own in recipe.parts
        for c in _largest([c for c in of_all if {*c.entries} <= {*own}])
    ]
    return (*_largest(there), *of_sublayers)


def _largest(changes: Sequence[Change]) -> tuple[Change, ...]:
    """Those that no other contains; of several that change the same, the first."""
    found = [c for c in changes if c.entries and not any(set(c.entries) < set(other.entries) for other in changes)]
    return tuple({c.entries: c for c in reversed(found)}.values())


def with_changes(
    designs: Sequence[tuple[str, dict[str, Any]]], combinations: Sequence[Sequence[Change]]
) -> Iterator[Hypothesis]:
    """All combinations in the first design, then in the next."""
    for design, entries in designs:
        for changes in combinations:
            recipe = RIGHT.with_(merged(entries, changes))
            names = {name for change in changes for name, _ in change.entries}
            fills = FILLS if names & EMPTYING and "fill" not in names else (recipe.fill,)
            for fill in fills:
                yield Hypothesis(design, tuple(changes), recipe.with_({"fill": fill}), entries.get("parts", ()))


def _distinct(hypotheses: Iterable[Hypothesis]) -> Iterator[Hypothesis]:
    """Leaves out a recipe that has been tried, or is that of a right design."""
    seen = set()
    for hypothesis in hypotheses:
        if hypothesis.recipe not in seen:
            seen.add(hypothesis.recipe)
            yield hypothesis
