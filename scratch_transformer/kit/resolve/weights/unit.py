"""A unit of a composite: an attention, a normalization, a matrix with its bias, or an embedding."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from torch import Tensor


@dataclass
class Unit:
    """kind: "attention", "norm", "matrix". names: of its parameters, after `path`. shape: of its matrix or scale."""

    kind: str
    path: str
    names: list[str] = field(default_factory=list)
    shape: tuple[int, ...] = ()
    context: tuple[str, ...] = ()
    layer: int | None = None
    raw: bool = False
    """A bare parameter: x @ W or x @ W.T."""
    half: int | None = None
    """Of its rows, where it is half of a matrix: 0 or 1."""

    def of(self, positions: Tensor) -> Tensor:
        """Its own of the positions of a parameter."""
        return positions if self.half is None else positions.chunk(2)[self.half]

    def full(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name


def owner_and_name(unit: Unit) -> tuple[str, str]:
    """The module that a matrix is made by, and what it is called there."""
    if (unit.raw and len(unit.names) == 1) or not unit.path:
        return unit.path, unit.names[0]
    owner, _, name = unit.path.rpartition(".")
    return owner, name


def names_under(owner: str, units: Iterable[Unit]) -> list[str]:
    """The names of what units have, as the module that owns them has it."""
    start = len(f"{owner}.") if owner else 0
    return [unit.full(name)[start:] for unit in units for name in unit.names]


def but_for(units: Iterable[Unit], parts: Collection[Unit]) -> list[Unit]:
    """Units, but for some: for these, and not for others that are equal."""
    return [unit for unit in units if not any(unit is other for other in parts)]


def put_together(units: list[Unit], parts: Sequence[Unit], made: Unit) -> list[Unit]:
    """Units with one in place of several, where the first of these is."""
    place = next(i for i, unit in enumerate(units) if unit is parts[0])
    return but_for([*units[:place], made, *units[place:]], parts)
