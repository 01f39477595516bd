"""The search for the recipe that reproduces a candidate: right ones first, then one mistake, then two."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from scratch_transformer.conformance.kit.fits import fitted
from scratch_transformer.conformance.kit.kind import Kind
from scratch_transformer.conformance.kit.mistakes import MISTAKES
from scratch_transformer.conformance.kit.recipe import RIGHT, Recipe
from scratch_transformer.conformance.kit.session import EXACT, ROUNDED, Session

FILLS = ("-1e9", "-inf, empty rows zero", "-inf")
EMPTYING = {"causal", "inverted", "softmax_over", "padding"}
"""Mistakes that can leave a row without keys; what such a row becomes depends on what blocked scores are filled with."""

TOGETHER = (("LN1", "LN2"), ("LN1", "LN3"), ("LN2", "LN3"), ("LN1", "LN2", "LN3"))
"""Mistakes that often come together."""


@dataclass(frozen=True)
class Change:
    """One form of a mistake."""

    id: str
    form: str
    entries: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Hypothesis:
    """A design with changes."""

    design: str
    changes: tuple[Change, ...] = ()
    recipe: Recipe = RIGHT

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(change.id for change in self.changes)


@dataclass(frozen=True)
class Match:
    """The hypotheses that reproduce a candidate: the first is the simplest; the others are numerically the same."""

    hypotheses: tuple[Hypothesis, ...] = ()
    error: float = float("inf")
    tried: int = 0
    notes: tuple[str, ...] = field(default=())


def find(session: Session, known: Sequence[str] = (), most: int = 4000) -> Match:
    """The simplest explanation of a candidate's outputs. `most`: how many pairs of mistakes are tried."""
    tried = 0
    for tier in _tiers(session, known):
        found: list[tuple[float, Hypothesis]] = []
        for hypothesis in itertools.islice(_distinct(tier), most):
            tried += 1
            error = session.error(hypothesis.recipe, stop_above=ROUNDED)
            if error <= ROUNDED:
                found.append((error, hypothesis))
        if found:
            return _chosen(found, tried)
    return Match(tried=tried)


def _chosen(found: list[tuple[float, Hypothesis]], tried: int) -> Match:
    """Exact matches before those up to float32's rounding; of the latter only what is far better than the rest."""
    best = min(error for error, _ in found)
    limit = EXACT if best <= EXACT else 10 * best
    chosen = [hypothesis for error, hypothesis in found if error <= limit]
    first = chosen[0]
    others = {h.ids: h for h in reversed(chosen) if h.ids != first.ids}
    return Match((first, *others.values()), best, tried)


def _tiers(session: Session, known: Sequence[str]) -> Iterator[Iterable[Hypothesis]]:
    kind = session.kind
    designs = _designs(kind, session)
    yield (Hypothesis(name, (), RIGHT.with_(changes)) for name, changes in designs)
    changes = changes_of(kind)
    base = [change for change in changes if change.id in known]
    if base:
        combinations = [c for n in range(len(base), 0, -1) for c in itertools.combinations(base, n) if compatible(c)]
        yield _with(designs, combinations)
    yield _with(designs, [(change,) for change in changes])
    extra = fitted(session, [RIGHT.with_(changes) for _, changes in designs])
    if extra:
        fits = [tuple(Change(id, form, tuple(entries.items())) for id, form, entries in fit) for fit in extra]
        yield _with(designs, fits)
    together = [c for ids in TOGETHER for c in itertools.product(*(_forms(changes, id) for id in ids))]
    yield _with(designs, together)
    if base:
        biggest = max(combinations, key=len)
        yield _with(designs, [(*biggest, c) for c in changes if compatible((*biggest, c))])
    yield _with(designs, [pair for pair in itertools.combinations(changes, 2) if compatible(pair)])


def _designs(kind: Kind, session: Session) -> list[tuple[str, dict[str, Any]]]:
    return [(name, dict(changes)) for name, changes in kind.designs.items()]


def changes_of(kind: Kind) -> list[Change]:
    """Every form of every mistake that can occur in a kind and changes its outputs."""
    return [
        Change(id, form, tuple(entries.items()))
        for id, _, only in (name.partition(":") for name in kind.mistakes)
        for form, entries in MISTAKES[id].changes.items()
        if not only or form == only
    ]


def _forms(changes: list[Change], id: str) -> list[Change]:
    return [change for change in changes if change.id == id]


def compatible(changes: Iterable[Change]) -> bool:
    """Whether they change different entries of the recipe, and are different mistakes."""
    names = [name for change in changes for name, _ in change.entries]
    return len(names) == len(set(names))


def _with(designs: list[tuple[str, dict[str, Any]]], combinations: Iterable[Sequence[Change]]) -> Iterator[Hypothesis]:
    for changes in combinations:
        merged = {name: value for change in changes for name, value in change.entries}
        for design, entries in designs:
            recipe = RIGHT.with_({**entries, **merged})
            fills = FILLS if merged.keys() & EMPTYING and "fill" not in merged else (recipe.fill,)
            for fill in fills:
                yield Hypothesis(design, tuple(changes), recipe.with_({"fill": fill}))


def _distinct(hypotheses: Iterable[Hypothesis]) -> Iterator[Hypothesis]:
    """Leaves out a recipe that has been tried, or is that of a right design."""
    seen = set()
    for hypothesis in hypotheses:
        if hypothesis.recipe not in seen:
            seen.add(hypothesis.recipe)
            yield hypothesis
