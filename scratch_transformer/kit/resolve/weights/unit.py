"""A unit of a composite: an attention, a normalization, a matrix with its bias, or an embedding."""

from __future__ import annotations

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
