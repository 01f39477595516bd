"""How like a name is to what a kind goes by, with words around it, short for it, or misspelt."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

from scratch_transformer.kit.kind import Kind
from scratch_transformer.kit.resolve.names.words import plain

NAMED = 8.0
"""Likeness of a name that is a synonym, but for a word around it or a letter."""
HEAD = "head"
ADAPTER = "run_"
"""How the names begin of an assignment's adapters."""
AROUND = "s", "module", "layer", "block", "my", "custom", "simple", "v1", "v2", "1", "2", "transformer", "naive"
"""Words that say nothing, before or behind a name."""


def kind_named(name: str, kinds: Mapping[str, Kind]) -> str | None:
    """The kind that a name alone suggests, for what is not there."""
    word = plain(name)
    scored = [(max((likeness(word, plain(s)) for s in k.synonyms), default=0.0), k.name) for k in kinds.values()]
    best = max(scored, key=lambda pair: pair[0], default=(0.0, ""))
    return best[1] if best[0] >= 5 else None


def is_norm_by_name(name: str, kinds: Mapping[str, Kind]) -> bool:
    """Whether a name says which norm it is: an RMSNorm with a mistake is no LayerNorm, though both take the same."""
    word = plain(name.removeprefix(ADAPTER))
    return sum(word in map(plain, kinds[norm].synonyms) for norm in ("LayerNorm", "RMSNorm")) == 1


def is_named(name: str, kind: Kind) -> bool:
    """Whether the name says that it is of this kind, and does not just remind of it."""
    return max((likeness(plain(name), plain(synonym)) for synonym in kind.synonyms), default=0.0) >= NAMED


@functools.lru_cache(maxsize=65536)
def likeness(word: str, synonym: str) -> float:
    """10 of the synonym itself, 8 of one with a usual word around it or misspelt, less of one that holds it; else 0."""
    if word == synonym:
        return 10.0
    if synonym == HEAD:  # no LMHead
        return 0.0
    if _is_misspelt(word, synonym):
        return 8.0
    for change in AROUND:
        if word in (synonym + change, change + synonym) or word.replace(change, "") == synonym:
            return 8.0
    if len(synonym) > 3 and (word.endswith(synonym) or word.startswith(synonym)):
        return 4.0 + 3.0 * len(synonym) / len(word)
    if len(synonym) > 4 and synonym in word:
        return 3.0 * len(synonym) / len(word)
    return 0.0


def by_last_word(name: str, kind: Kind) -> float:
    """The likeness of a class whose name ends with a short synonym, as a word: TinyGPT, gated_ffn, MiniGpt2."""
    bare = re.sub(r"(_?[vV])?\d+$", "", name)
    ends = [
        s for s in kind.synonyms if (len(s) == 3 or s == "lm") and bare.endswith((s.upper(), s.capitalize(), f"_{s}"))
    ]
    return 4.0 + 9.0 / len(bare) if ends else 0.0


def _is_misspelt(word: str, synonym: str) -> bool:
    """One letter was left out, or is there twice: FeedFoward."""
    short, long = sorted((word, synonym), key=len)
    rest = iter(long)
    return len(short) >= 8 and len(long) == len(short) + 1 and all(letter in rest for letter in short)
