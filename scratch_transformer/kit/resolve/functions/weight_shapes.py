"""Which shapes the weights of a function may have: x @ W or x @ W.T, one matrix for all heads or one for each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from scratch_transformer.kit.resolve.functions.weight_names import Unit
from scratch_transformer.kit.resolve.names.roles import role_of
from scratch_transformer.kit.resolve.weights.align import canonical_units

Shape = tuple[int, ...]
Shapes = dict[str, tuple[str, Shape]]
"""Leaf -> the path of its parameter, and the shape."""
ATTENTION = re.compile(r"att|mha", re.I)
BY_NUMBER = {1: ("qkv",), 2: ("qkv", "o"), 3: ("q", "k", "v"), 4: ("q", "k", "v", "o")}
EXPLICIT = re.compile(r"(^|[._])(q|k|v|o|qkv|kv|query|key|value|c_attn|in_proj)(_?proj)?$", re.I)


def shapes(
    units: list[Unit], kind: str, canonical: Mapping[str, Shape], settings: Mapping[str, Any]
) -> Iterator[Shapes]:
    """All that are worth trying, the likeliest first; nothing if a unit has no counterpart."""
    E = int(settings.get("d_model", 0))
    sizes: dict[str, Shape] = {unit.path: (E,) for unit in units if unit.is_norm}
    rest = [unit for unit in units if not unit.is_norm]
    attention = [unit for unit in rest if _is_projection(unit, kind)]
    sizes |= _projections(attention, settings)
    sizes |= _others(_with_gate_first([unit for unit in rest if unit not in attention]), canonical)
    if sizes.keys() != {unit.path for unit in units}:
        return
    flat = "" if kind.endswith("Attention") else "attn."
    moved = {u.path: flat for u in attention if not ATTENTION.search(u.path)}
    seen = []
    is_torchs = any("weight" in leaf.lower() for unit in units for leaf in unit.leaves.values())
    for per_head in (False, True):
        for turned in (is_torchs, not is_torchs):  # q_proj_weight is nn.Linear's, W_q is multiplied as it is
            found: Shapes = {}
            for unit in units:
                h = int(settings.get("num_heads", 0)) if per_head and unit in attention else 0
                path = moved.get(unit.path, "") + unit.path
                found |= _of_unit(unit, path, sizes[unit.path], turned, h)
            if found not in seen:
                seen.append(found)
                yield found


def _of_unit(unit: Unit, path: str, shape: Shape, turned: bool, heads: int) -> Shapes:
    """shape: (in, out) of a matrix, (rows, features, 0) of a table, which is never turned, (features,) of a norm."""
    found: Shapes = {}
    for role, leaf in unit.leaves.items():
        own = shape[:2]
        if role == "bias":
            own = shape[-1:] if len(shape) < 3 else shape[:1]
        elif len(shape) == 2 and heads > 1 and shape[0] == shape[1]:
            small = shape[0] // heads
            own = (heads, small, shape[0]) if role_of(f"{path}.weight") == "o" else (heads, shape[0], small)
        elif len(shape) == 2 and turned:
            own = shape[::-1]
        found[leaf] = (f"{path}.{role}" if path else role, own)
    return found


def _is_projection(unit: Unit, kind: str) -> bool:
    """Is it part of an attention?"""
    if kind.endswith("Attention"):
        return True
    return bool(ATTENTION.search(unit.path) or EXPLICIT.search(unit.path))


def _projections(units: list[Unit], settings: Mapping[str, Any]) -> dict[str, Shape]:
    """Of attention: by their names, else by how many there are."""
    E, h = int(settings.get("d_model", 0)), int(settings.get("num_heads", 1))
    wide = {"qkv": 3 * E, "kv": 2 * E, "qk": 2 * E}
    found: dict[str, Shape] = {}
    groups: dict[str, list[Unit]] = {}
    for unit in units:
        groups.setdefault(unit.path.rpartition(".")[0], []).append(unit)
    for group in groups.values():
        roles = [role_of(f"{unit.path.rpartition('.')[2]}.weight") for unit in group]
        if None in roles:
            roles = list(BY_NUMBER.get(len(group), roles))
        for unit, role in zip(group, roles, strict=True):
            is_head = bool(re.search(r"(^|\.)\d+\.", unit.path)) and not ATTENTION.search(unit.path) and role != "o"
            found[unit.path] = (E, E // h if is_head else wide.get(role or "", E))
    return found


def _others(units: list[Unit], canonical: Mapping[str, Shape]) -> dict[str, Shape]:
    """Matrices and tables in the order of the canonical ones, layer by layer."""
    ours = [unit for unit in canonical_units(canonical) if unit.kind == "matrix"]
    found: dict[str, Shape] = {}
    for layer in {_layer(unit.path) for unit in units}:
        here = [unit for unit in units if _layer(unit.path) == layer]
        there = [unit for unit in ours if unit.layer == layer]
        if len(here) < len(there) and not any("pos" in unit.path for unit in here):
            there = [unit for unit in there if "pos" not in unit.path]
        if len(here) < len(there):  # without a gate
            there = [unit for unit in there if unit.path.rpartition(".")[2] != "gate"]
        for unit, other in zip(here, there, strict=False):
            rows, columns = other.shape
            is_table = "bias" not in other.names and (other.path == "" or re.search("embed|pos", other.path))
            found[unit.path] = (rows, columns, 0) if is_table else (columns, rows)
    return found


def _with_gate_first(units: list[Unit]) -> list[Unit]:
    """As Llama numbers those of a network: w1 is the gate, w3 the map beside it, w2 the one after both."""
    groups: dict[str, list[Unit]] = {}
    for unit in units:
        groups.setdefault(unit.path.rpartition(".")[0], []).append(unit)
    found: list[Unit] = []
    for group in groups.values():
        numbers = [re.search(r"([123])$", unit.path) for unit in group]
        is_numbered = len(group) == 3 and [number[1] for number in numbers if number] == ["1", "2", "3"]
        found += [group[0], group[2], group[1]] if is_numbered else group
    return found


def _layer(path: str) -> int | None:
    match = re.search(r"(?:^|\.)(\d+)\.", path)
    return int(match[1]) if match else None
