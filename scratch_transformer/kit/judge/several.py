"""Several mistakes at once in one attention: those that show without a mask, then those of masks besides; those of its
rotary positions.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from scratch_transformer.kit import clock
from scratch_transformer.kit.canonical.rotary import OF_BASE
from scratch_transformer.kit.judge.designs import Design
from scratch_transformer.kit.judge.places import Change, compatible, merged
from scratch_transformer.kit.judge.session import ROUNDED, Result, Session, distance
from scratch_transformer.kit.judge.written import LEAST_BASE, bases
from scratch_transformer.kit.mistakes.rotary import SMALL_BASE
from scratch_transformer.kit.recipe import RIGHT, Recipe

STEPS = (("A1",), ("A2", "A37"), ("A13", "A23"))
"""Mistakes of the scores' scale, of the softmax and of the heads: one of each, or none."""
OF_MASKS = ("A3", "A4", "A5", "A6", "A7", "A16", "A24", "A25")
MOST = 2
"""Designs, the nearest, with which they are tried."""
OF_ROTATION = (("R2",), ("R1", "R6", "R7"), ("R3", "R4"), ("R8",), ("R9",), ("R10",))
"""Mistakes of the angles, of how a pair is turned, of what is turned and when, of positions and of the order of what
comes out: one of each, or none.
"""


def of_rotation(changes: Sequence[Change], known: Sequence[Change] = ()) -> Iterator[tuple[Change, ...]]:
    """Two mistakes of rotary positions at once, or more, the fewest first. known: of the parts, besides."""
    steps = [[None, *(change for change in changes if change.id in ids)] for ids in OF_ROTATION]
    together = [tuple(c for c in some if c is not None) for some in itertools.product(*steps)]
    for some in sorted((some for some in together if some), key=len):
        if len((*known, *some)) > 1 and compatible((*known, *some)):
            yield (*known, *some)


def of_attention(
    session: Session, designs: Sequence[Design], changes: Sequence[Change], known: Sequence[Change]
) -> Iterator[tuple[Design, list[tuple[Change, ...]]]]:
    """Designs, each with what to try: several mistakes that agree where there is no mask, alone and with one of masks.

    known: of the parts, besides.
    """
    free = [one for one in session.ran if not one.probe.has_mask]
    if not session.kind.name.endswith("Attention") or not free:
        return
    steps = [[None, *(change for change in changes if change.id in ids)] for ids in STEPS]
    masks = [change for change in changes if change.id in OF_MASKS]
    for design in designs[:MOST]:
        for step in itertools.product(*steps):
            if clock.now() > session.until:
                return
            some = (*known, *(change for change in step if change is not None))
            if (
                len(some) < 2
                or not compatible(some)
                or not _agrees(session, free, RIGHT.with_(merged(design[1], some)))
            ):
                continue
            besides = [(*some, change) for change in masks]
            yield design, [some, *(c for c in besides if compatible(c))]


def _agrees(session: Session, results: Sequence[Result], recipe: Recipe) -> bool:
    return all(distance(one.output, session.variant(recipe, one.probe), one.probe) <= ROUNDED for one in results)


def of_small_bases(changes: Sequence[Change], definition: Any) -> list[Change]:
    """Angles of rotary positions with a small number as the base, as it is written, alone and beside other angles."""
    own = [change for change in changes if change.id == "R2"]
    told = [base for base in bases(definition) if base < LEAST_BASE] if own else []
    angles = {"": "paper"} | {one.form: str(dict(one.entries)["rotary_angles"]) for one in own}
    return [
        Change("R2", f"{SMALL_BASE.format(base)}{form and '; '}{form}", (("rotary_angles", f"{angle}{OF_BASE}{base}"),))
        for base in told
        for form, angle in angles.items()
    ]
