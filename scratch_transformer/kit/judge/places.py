"""Of what is made in one part alone: a mistake in the decoder only, an encoder with norms before, a decoder after."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

Entries = tuple[tuple[str, Any], ...]
SIDES = ("encoder", "decoder")
DECODERS = ("DecoderLayer", "Decoder", "TokenDecoder")
PLACES = {"Transformer": SIDES, **dict.fromkeys(DECODERS, ("self_attn", "cross_attn"))}
"""The two parts of a kind that may be made in different ways."""
TWO, THREE = ("norm1", "norm2"), ("norm1", "norm2", "norm3")
SUBLAYERS = {
    **dict.fromkeys(("EncoderLayer", "Encoder", "TokenEncoder", "DecoderOnlyLayer", "DecoderOnly"), TWO),
    **dict.fromkeys(("LlamaBlock", "MaskedLlamaBlock", "LlamaModel"), TWO),
    **dict.fromkeys(DECODERS, THREE),
}
"""The sublayers of a kind, by their norms."""
AROUND = {"norm_order", "residual", "summand", "norm_kind", "ddof", "eps", "eps_inside", "variance", "affine"}
"""Entries that a sublayer may have of its own: what is around it."""
OF_NORMS = AROUND - {"norm_order", "residual", "summand"}
"""Of these, what the norm after the last layer may have of its own, or all others."""
STACKS = ("Encoder", "TokenEncoder", "Decoder", "TokenDecoder", "DecoderOnly", "LlamaModel", "Transformer")
MOST_APART = 3
"""Mistakes, each of which may be in one of two parts; of more, one."""


@dataclass(frozen=True)
class Change:
    """One form of a mistake. part: "decoder", "cross_attn", where it is made there alone."""

    id: str
    form: str
    entries: Entries
    part: str = ""


def apart(kind: str, changes: Sequence[Change]) -> list[tuple[Change, ...]]:
    """With one or more of them in one part alone: in the encoder, or in the decoder."""
    places = PLACES.get(kind, ())
    options = [[c, *(replace(c, part=p) for p in _within(places, c.part))] for c in changes]
    if len(changes) > MOST_APART:  # one of them, and the others in both
        moved = [(c, one) for c, own in zip(changes, options, strict=True) for one in own[1:]]
        return [tuple(one if other is c else other for other in changes) for c, one in moved]
    return list(itertools.product(*options))[1:] if places else []


def _within(places: Sequence[str], part: str) -> Iterator[str]:
    """The places that a change can be in; what is in a sublayer already may be in that of one side."""
    if not part:
        yield from places
    elif part in THREE and places == SIDES:
        yield from (f"{side}.{part}" for side in SIDES)


def in_a_sublayer(kind: str, changes: Sequence[Change]) -> list[tuple[Change, ...]]:
    """With what is around one sublayer alone in another way than in the others; the norms' mistakes all in one.

    Of a stack, the norm after the last layer may be the only one that is wrong, or the only one that is right.
    """
    made = []
    last = (("layers", OF_NORMS), ("norm", OF_NORMS)) if kind in STACKS else ()
    for place, own in (*((place, AROUND) for place in SUBLAYERS.get(kind, ())), *last):
        around = [c for c in changes if not c.part and {name for name, _ in c.entries} <= own]
        others = [c for c in changes if c not in around]
        made += [(*others, *(replace(c, part=place) for c in around))] if around else []
    return made


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
    for name, entries in sorted(designs, key=lambda design: design[1].get("norm_order") == "pre"):  # the paper's first
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
