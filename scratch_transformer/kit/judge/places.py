"""Of what is made in one part alone: a mistake in the decoder only, an encoder with norms before, a decoder after."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

Entries = tuple[tuple[str, Any], ...]
Parts = tuple[tuple[str, Entries], ...]
"""Of a recipe: the name of a part, and its own values of entries."""
SIDES = ("encoder", "decoder")
PLACES = {
    "Transformer": SIDES,
    **dict.fromkeys(("DecoderLayer", "Decoder", "TokenDecoder"), ("self_attn", "cross_attn")),
}
"""The two parts of a kind that may be made in different ways."""
MOST_APART = 3
"""Mistakes, each of which may be in one of two parts."""


@dataclass(frozen=True)
class Change:
    """One form of a mistake. part: "decoder", "cross_attn", where it is made there alone."""

    id: str
    form: str
    entries: Entries
    part: str = ""


def apart(kind: str, changes: Sequence[Change]) -> list[tuple[Change, ...]]:
    """With one or more of them in one part alone: in the encoder, or in the decoder."""
    places = PLACES.get(kind, ()) if len(changes) <= MOST_APART else ()
    options = [[c, *(replace(c, part=place) for place in places if not c.part)] for c in changes]
    return list(itertools.product(*options))[1:] if places else []


def merged(entries: Mapping[str, Any], changes: Iterable[Change]) -> dict[str, Any]:
    """The entries of a recipe with changes, those of parts among them."""
    whole, of_parts = dict(entries), {part: dict(own) for part, own in entries.get("parts", ())}
    for change in changes:
        (of_parts.setdefault(change.part, {}) if change.part else whole).update(change.entries)
    parts = tuple((part, tuple(own.items())) for part, own in of_parts.items())
    return {**whole, "parts": parts} if parts else whole


def compatible(changes: Sequence[Change]) -> bool:
    """Whether they change different entries of the recipe, or of different parts, and are different mistakes."""
    pairs = ((c.part, other.part, c, other) for c, other in itertools.combinations(changes, 2))
    return not any(
        {name for name, _ in c.entries} & {name for name, _ in other.entries}
        for part, second, c, other in pairs
        if not part or not second or part == second
    )


def by_side(
    designs: Sequence[tuple[str, Mapping[str, Any]]], missing: Collection[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Right designs of whole models whose encoder and decoder differ: in where norms are, or in the last norm.

    missing: parameters that a candidate has no place for, which tell whether there is a last norm.
    """
    has_norm = {side: f"{side}.norm.weight" not in missing for side in SIDES}
    differ = len(set(has_norm.values())) == 2
    orders = [*([{}] if differ else []), *(dict(zip(SIDES, pair, strict=True)) for pair in (ONE, ONE[::-1]))]
    seen: list[dict[str, Any]] = []
    for name, entries in designs:
        base = {**entries, **({"final_norm": False} if differ else {})}
        for order in orders:
            own: dict[str, dict[str, Any]] = {side: {} for side in SIDES}
            for side in SIDES:
                own[side] |= {"final_norm": has_norm[side]} if differ else {}
                own[side] |= {"norm_order": order[side]} if order else {}
            of_sides = tuple((side, tuple(values.items())) for side, values in own.items())
            parts = (*entries.get("parts", ()), *of_sides)
            rest = {n: v for n, v in base.items() if not order or n != "norm_order"}
            if {**rest, "parts": parts} not in seen:
                seen.append({**rest, "parts": parts})
                yield name, {**base, "parts": parts}


ONE = ("pre", "post")
