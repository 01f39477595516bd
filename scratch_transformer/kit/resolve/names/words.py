"""Words of names, whatever their style: embedDim, embed_dim and embeddim are "embed" and "dim"."""

from __future__ import annotations

import functools
import re

WORDS = """
    attention attn batch block blocks channels class classes context count ctx d dec decoder decode depth dict dim
    dimension dimensions dims drop dropout embed embedding embeddings embd emb enc encoder eps epsilon expansion
    factor feature features feed ff ffn ffw forward group groups head heads hid hidden id idx in ind index inner input
    intermediate key keys kv label layer layers len length max maximum mlp model mult multiplier n norm num number
    of out output pad padding per pf pos position positions prob query queries rate ratio residual seq sequence size
    smoothing source src state steps symbol target tgt theta tok token tokens total transformer trg unit units value
    values vector vocab vocabulary warmup weight width window word words
"""
KNOWN = frozenset(WORDS.split())
"""Words that may stand together without anything between them: numheads, ffhiddensize."""


@functools.lru_cache(maxsize=4096)
def plain(name: str) -> str:
    """embedDim, embed_dim, EMBED_DIM -> embeddim; src_msk -> srcmask."""
    return re.sub(r"[^a-z0-9]", "", name.lower()).replace("msk", "mask")


@functools.lru_cache(maxsize=4096)
def words(name: str) -> tuple[str, ...]:
    """numHeads, num_heads, NUM_HEADS, numheads -> num, heads."""
    parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)
    return tuple(word for part in parts for word in _split(part.lower()))


@functools.lru_cache(maxsize=4096)
def _split(text: str) -> tuple[str, ...]:
    """A text in known words, the longest first; itself if it is not all of such."""
    if text in KNOWN or len(text) < 3:
        return (text,)
    for end in range(len(text) - 1, 0, -1):
        if text[:end] in KNOWN:
            rest = _split(text[end:])
            if set(rest) <= KNOWN:
                return (text[:end], *rest)
    return (text,)
