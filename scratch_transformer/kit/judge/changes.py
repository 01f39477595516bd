"""The changes of a recipe that are tried: all that a kind can have, and those that parts, weights and words show."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from scratch_transformer.kit.judge.bypassed import kept
from scratch_transformer.kit.judge.designs import is_evident
from scratch_transformer.kit.judge.places import SIDES, SUBLAYERS, Change, in_a_sublayer
from scratch_transformer.kit.judge.session import Session
from scratch_transformer.kit.judge.variants import Variants
from scratch_transformer.kit.kind import NO_MASK, Candidate, Diagnosis, Finding, Kind
from scratch_transformer.kit.kinds.inputs import EPS
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.normalization import LARGE_EPS, MOST_EPS, OF_A_SIZE
from scratch_transformer.kit.recipe import RIGHT

FILLS = ("-1e9", "-inf, empty rows zero", "-inf")

ORDERS = ("B1", "B2", "B3", "B13")
"""Mistakes in the order of a sublayer and its norm."""
UNHIDDEN = ("MaskedLlamaBlock", "EncoderLayer")
"""Layers in which every token attends to all."""
OF_SUBLAYERS = {"norm_order", "residual", "summand"}
"""What may be otherwise around one sublayer than around the others."""
TOGETHER = (("LN1", "LN2"), ("LN1", "LN3"), ("LN2", "LN3"), ("LN1", "LN2", "LN3"), ("LN1", "LN2", "LN7"),
            ("LN1", "LN2", "LN3", "LN7"), ("R2", "R7"), ("R3", "R7"),
            ("R4", "R7"), ("R7", "LN3"), ("R4", "LN3"), ("R4", "R7", "LN3"), ("T3", "T4"), ("A37", "A24"),
            ("P2", "P9"), ("E2", "P2", "P9"))  # fmt: skip
"""Mistakes that often come together."""


def changes_of(kind: Kind) -> list[Change]:
    """Every form of every mistake that can occur in a kind and changes its outputs."""
    return [
        Change(id, form, tuple(entries.items()))
        for id, one, only in (name.partition(":") for name in kind.mistakes)
        for form, entries in MISTAKES[id].changes.items()
        if not one or form == only
    ]


def forms_of(changes: list[Change], id: str) -> list[Change]:
    """Those of one mistake."""
    return [change for change in changes if change.id == id]


def evident(variants: Variants, missing: Collection[str], known: Sequence[Change]) -> list[Change]:
    """The mistakes that its parameters show, besides those that are known."""
    others = [change for change in changes_of(variants.kind) if change.id not in {c.id for c in known}]
    return [change for change in others if is_evident(variants, dict(change.entries), missing)]


def _is_design(kind: Kind, name: str, value: Any) -> bool:
    """Whether a right design of a kind decides this, or it changes nothing but queries without keys."""
    return (name == "fill" and value in FILLS) or any(changes.get(name) == value for changes in kind.designs.values())


def of_parts(kind: Kind, parts: Sequence[Diagnosis]) -> list[Change]:
    """The mistakes that were found in the parts, each once, as changes."""
    known: dict[str, Change] = {}
    for part in parts:
        for finding in part.findings:
            names = {name for entries in finding.mistake.changes.values() for name in entries}
            others = [_entries_of(other, part) for other in part.findings if other.mistake.id != finding.mistake.id]
            names -= set().union(*others) - _entries_of(finding, part)
            values = {name: getattr(part.recipe.within(finding.part), name) for name in sorted(names)}
            entries = tuple((n, v) for n, v in values.items() if v != getattr(RIGHT, n) and not _is_design(kind, n, v))
            entries = entries or tuple(finding.entries.items())
            if entries and finding.mistake.id in kind.ids:
                known.setdefault(finding.mistake.id, Change(finding.mistake.id, finding.form, entries, finding.part))
    if any(part.kind in UNHIDDEN and NO_MASK in part.limits for part in parts):  # nobody can hide the future from it
        known |= {change.id: change for change in forms_of(changes_of(kind), "A25") if not change.form}
    return list(known.values())


def _entries_of(finding: Finding, part: Diagnosis) -> set[str]:
    """The entries of a recipe that the forms of a mistake decide that are a part's: what another has is none of it."""
    recipe, forms = part.recipe.within(finding.part), finding.mistake.changes.values()
    own = [form for form in forms if all(getattr(recipe, name) == value for name, value in form.items())]
    return {name for form in own for name in form}


def on_their_sides(kind: Kind, parts: Sequence[Diagnosis], changes: Sequence[Change]) -> tuple[Change, ...]:
    """The mistakes that one side of a model has, and the other has not, on that side; () if there are none."""
    sides = [(next((s for s in SIDES if s in part.kind.lower()), ""), part) for part in parts]
    if kind.name != "Transformer" or not set(SIDES) <= {side for side, _ in sides}:
        return ()
    own = {c: {side for side, part in sides if c.id in part.ids} for c in changes if not c.part}
    moved = tuple(replace(c, part=next(iter(own[c]))) if len(own.get(c, ())) == 1 else c for c in changes)
    return moved if any(c.part in SIDES for c in moved) else ()


def untold(kind: Kind, candidate: Candidate) -> list[Change]:
    """What is sure of a model of two languages that takes no mask and speaks of none: padding is attended to; and of a
    decoder, in which nothing hides anything.
    """
    if candidate.speaks_of_padding:
        return []
    id = "A24" if kind.name == "Transformer" else "A25" if kind.name in ("DecoderLayer", "TokenDecoder") else ""
    return [change for change in forms_of(changes_of(kind), id) if change.form]


def of_kept_eps(session: Session, changes: Sequence[Change]) -> list[Change]:
    """The ε that all norms of a module keep, where it is another than the reference's; a size in its place, too."""
    module, usual = session.candidate.module, session.settings.get("eps", EPS)
    parts = [] if module is None else [vars(part).items() for part in module.modules()]
    kept = {value for part in parts for name, value in part if "eps" in name.lower() and type(value) in (int, float)}
    if len(kept) == 1 and max(kept) > MOST_EPS:
        form = OF_A_SIZE if kept == {session.settings.get("d_model")} else LARGE_EPS
        return [Change("LN3", form, (("eps", float(max(kept))),))]
    return [c for c in changes if c.id == "LN3" and {*c.entries} == {("eps", value) for value in kept - {usual}}]


def of_kept_norms(kind: str, module: Any) -> tuple[Change, ...]:
    """B2 around those sublayers alone whose norm's output takes the place of what it normalizes; () if around all."""
    cls: Any = type(module)
    places, numbers = SUBLAYERS.get(kind, ()), kept(cls)
    if not 1 < len(numbers) < len(places) or numbers[-1] > len(places):
        return ()
    form, entries = next(iter(MISTAKES["B2"].changes.items()))
    return tuple(Change("B2", form, tuple(entries.items()), part=places[number - 1]) for number in numbers)


def of_sublayers(kind: str, changes: Sequence[Change]) -> Iterator[tuple[Change, ...]]:
    """Every mistake of order or sum in each sublayer alone, and the right orders mixed."""
    several = [change for change in changes if OF_SUBLAYERS & {name for name, _ in change.entries}]
    for change in (*several, Change("B1", "", (("norm_order", "post"),))):
        yield from in_a_sublayer(kind, (change,))


def of_bare_sublayers(
    kind: str, names: Iterable[str], missing: Collection[str], round_norms: Collection[int] = ()
) -> Iterator[tuple[Change, ...]]:
    """No norm around the sublayers whose norm has no weights, and any order around the others.

    names: of all weights. round_norms: numbers of other sublayers, from 1 on, that do not get what is normalized.
    """
    if kind not in SUBLAYERS:
        return
    norms = [name for name in names if name.endswith("weight")]
    of_places = {place: {name for name in norms if f".{place}.weight" in f".{name}"} for place in SUBLAYERS[kind]}
    bare = [p for n, (p, own) in enumerate(of_places.items(), 1) if own <= set(missing) or n in round_norms]
    if 0 < len(bare) < len(of_places):
        without = tuple(Change("B14", "", (("norm_order", "no norm"),), part=place) for place in bare)
        changes = [Change(id, form, tuple(e.items())) for id in ORDERS for form, e in MISTAKES[id].changes.items()]
        around = [c for change in changes for c in in_a_sublayer(kind, (change,)) if c[0].part not in bare]
        yield from (without, *((*without, *c) for c in around))


def subsets(changes: Sequence[Change]) -> list[tuple[Change, ...]]:
    """The largest first; all of them, if they are few."""
    n = len(changes)
    sizes = range(n, 0, -1) if n <= 4 else (n, n - 1, 1)
    return [subset for size in sizes for subset in itertools.combinations(changes, size)]
