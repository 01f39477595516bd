"""What the names of weights that are arguments say: b_q is the bias of q, gamma1 the scale of the first norm."""

from __future__ import annotations

import re
from dataclasses import dataclass

AFTER = r"(?:_.*|\d*|q|k|v|o|qkv|kv|in|out|up|down|fc\d?|ff\d?)"
BIAS = re.compile(rf"(?P<before>.*?)_?(?:bias(?:es)?|beta|shift|offset|(?<![a-z])b)(?P<after>{AFTER})$", re.I)
SCALE = re.compile(rf"(?P<before>.*?)_?(?:gamma|gain|scale|(?<![a-z])g)(?P<after>{AFTER})$", re.I)
MATRIX = re.compile(rf"(?P<before>.*?)_?(?:weights?|kernel|matrix|(?<![a-z])w)(?P<after>{AFTER})$", re.I)
NORM = re.compile(r"norm|(^|[._])ln", re.I)
TABLES = {"wte": "embed", "wpe": "pos"}
"""GPT-2's names for the embeddings."""
HOLDERS = ("params", "parameters", "weights", "table", "tables", "embedding", "embeddings", "embed", "vectors")


def looks_like_weight(name: str, has_norms: bool = True) -> bool:
    """Whether a name says that this is a weight. has_norms: a `scale` may be a norm's."""
    if name in TABLES or name.lower() in HOLDERS or is_bare(name):
        return True
    named = (BIAS.fullmatch(name), MATRIX.fullmatch(name), has_norms and SCALE.fullmatch(name))
    return any(named) or bool(NORM.search(name))


def is_bare(name: str) -> bool:
    """W, W_q, E: a capital that is no tensor which flows through."""
    return bool(re.fullmatch(r"[A-Z](_?\w)?", name)) and name not in ("X", "Q", "K", "V", "N", "T", "B", "H")


@dataclass
class Unit:
    """A matrix with its bias, or a scale with its shift. leaves: "weight" and "bias" -> leaf. path: in the module."""

    path: str
    leaves: dict[str, str]
    is_norm: bool


def units(leaves: list[str], only_norms: bool) -> list[Unit]:
    """Leaves that belong together by their names, in their order. only_norms: nothing else is expected."""
    found: dict[str, Unit] = {}
    for leaf in leaves:
        parent, _, last = leaf.rpartition(".")
        inside = only_norms or bool(NORM.search(parent))
        base, role, is_norm = _read(last, inside)
        is_norm = is_norm or inside
        path = ".".join(filter(None, (parent, base)))
        unit = found.setdefault(path, Unit(path, {}, is_norm))
        if role in unit.leaves:
            unit = found.setdefault(leaf, Unit(leaf, {}, is_norm))
        unit.leaves[role] = leaf
        unit.is_norm = unit.is_norm or is_norm
    return list(found.values())


def _read(name: str, inside: bool) -> tuple[str, str, bool]:
    """w_q -> ("q", "weight", no norm); beta1 -> ("norm1", "bias", a norm). inside: among the weights of one norm."""
    if name in TABLES:
        return TABLES[name], "weight", False
    for pattern, role in ((BIAS, "bias"), (SCALE, "weight"), (MATRIX, "weight")):
        match = pattern.fullmatch(name)
        if match:
            base = "_".join(filter(None, (match["before"], match["after"].strip("_"))))
            is_norm = pattern is SCALE or bool(re.match(r"beta|shift", name, re.I)) or bool(NORM.search(base))
            is_named = inside or not is_norm or NORM.search(base)
            return (base if is_named else f"norm{base}"), role, is_norm
    return name, "weight", bool(NORM.search(name))
