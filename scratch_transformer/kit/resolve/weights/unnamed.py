"""Attention that a layer writes out with matrices of which no name says what they are: their shapes tell."""

from __future__ import annotations

from scratch_transformer.kit.resolve.weights.unit import Unit, names_under, owner_and_name, put_together


def told_by_shapes(units: list[Unit]) -> list[Unit]:
    """With queries, keys and values in one matrix, (3 d, d), and the only square one, as one attention; so with four
    square ones. Of a layer, which has norms, where nothing else attends.
    """
    owners = dict.fromkeys(owner_and_name(unit)[0] for unit in units if unit.kind == "matrix")
    for owner in owners if any(unit.kind == "norm" for unit in units) else ():
        own = [unit for unit in units if unit.kind == "matrix" and owner_and_name(unit)[0] == owner]
        attends = any(unit.kind == "attention" and _is_within(unit.path, owner) for unit in units)
        parts = [] if attends else _of_attention([unit for unit in own if not unit.raw and len(unit.shape) == 2])
        if parts:
            made = Unit("attention", owner, names_under(owner, parts), (), parts[0].context, parts[0].layer)
            units = put_together(units, parts, made)
    return units


def _is_within(path: str, owner: str) -> bool:
    return not owner or f"{path}.".startswith(f"{owner}.")


def _of_attention(matrices: list[Unit]) -> list[Unit]:
    """Those of attention among the matrices of a layer; [] where their shapes do not tell.

    A network that is three times as wide has a matrix of the turned shape besides.
    """
    shapes = [unit.shape for unit in matrices]
    packed = [unit for unit in matrices if unit.shape[0] == 3 * unit.shape[1] and unit.shape[::-1] not in shapes]
    square = [unit for unit in matrices if unit.shape[0] == unit.shape[1]]
    if len(packed) == len(square) == 1 and packed[0].shape[1] == square[0].shape[0]:
        return [*packed, *square]
    is_four = len(square) == 4 and len({unit.shape for unit in square}) == 1
    return square if is_four and not packed else []
