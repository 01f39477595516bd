"""Whether one name is another misspelt: hiddne_dim is hidden_dim; k_proj is not q_proj, nor norm1 norm2.

A name that is wrongly taken for another would make another meaning: where several could be meant, none is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from scratch_transformer.kit.resolve.names.settings import is_setting, settings_of
from scratch_transformer.kit.resolve.names.words import KNOWN, plain, words

LEAST, LONG = 4, 8
"""Letters of a name, or of a word of one, that may have one wrong, and two."""
SHORTENED = {
    "attn": "attention", "att": "attention", "emb": "embedding", "embed": "embedding", "embd": "embedding",
    "embeddings": "embedding", "pos": "position", "positional": "position", "enc": "encoding", "proj": "projection",
    "ffn": "feedforward", "ff": "feedforward", "tok": "token", "drop": "dropout", "normalization": "norm",
    "q": "query", "k": "key", "v": "value", "queries": "query", "keys": "key", "values": "value",
    "n": "num", "number": "num", "out": "output", "act": "activation",
}  # fmt: skip
"""Words -> the one that is meant by several."""


def only_one(name: str, others: Iterable[str]) -> str:
    """The one of some names that a name is, misspelt; "" if it is none of them, or may be several."""
    fits = [other for other in dict.fromkeys(others) if is_misspelt(name, other)]
    found = [other for other in fits if plain(other) == plain(name)] or fits
    if len(found) > 1 and len({*map(plain, found)}) == 1:  # relu and relu_: the nearer
        least = min(_distance(name, other) for other in found)
        found = [other for other in found if _distance(name, other) == least]
    return found[0] if len(found) == 1 and not _has_rival(name, found[0], others) else ""


def _has_rival(name: str, found: str, others: Iterable[str]) -> bool:
    """Whether another name is as near by its letters: randon may be randn, and random."""
    least = _distance(plain(name), plain(found))
    return any(_distance(plain(name), plain(other)) <= least for other in others if plain(other) != plain(found))


def is_misspelt(name: str, other: str) -> bool:
    """Whether they are spelt alike but for a letter or two, for capitals and underscores: none is a word of its own."""
    if name == other or _numbers(name) != _numbers(other):
        return False
    if plain(name) == plain(other):
        return True
    own, its = words(name), words(other)
    if len(own) == len(its):
        least = LEAST - 1 if len(name) >= LONG else LEAST  # masked_fil
        return all(one == two or _is_slip(one, two, least) for one, two in zip(own, its, strict=True))
    return _is_slip(plain(name), plain(other))


OPPOSED = {
    "q", "k", "v", "kv", "query", "key", "value", "src", "source", "tgt", "trg", "target", "enc", "encoder", "dec",
    "decoder", "in", "out", "input", "output", "attn", "attention", "resid", "residual", "embd", "emb", "embed",
}  # fmt: skip
"""Words that tell two numbers of one sort apart: src_len, tgt_len."""


def one_setting(name: str, others: Iterable[str]) -> str:
    """The only one of some names that is for the same number, however it is called: num_heads for n_heads, d_ff for
    inner; "" if there is none, or several.
    """
    found = [other for other in dict.fromkeys(others) if _is_one_setting(name, other)]
    return found[0] if len(found) == 1 else ""


def _is_one_setting(name: str, other: str) -> bool:
    apart = {*words(name)} & OPPOSED != {*words(other)} & OPPOSED
    apart = apart and not any({name, other} <= same for same in SAME)
    is_one = is_setting(name) and is_setting(other) and settings_of(name) == settings_of(other)
    return is_one and not apart and _numbers(name) == _numbers(other)


SAME = (
    {"d_model", "embed_dim", "emb_dim", "embd_dim", "embed_size", "emb_size", "d_embed", "n_embd"},
    {"d_k", "head_dim", "dim_head", "d_head", "head_size"},
)
"""Names of one width, whatever words they have."""


def means(name: str, other: str) -> bool:
    """Whether two names are for one thing, though spelt otherwise: n_heads and num_heads, layer_norm and norm.

    For what is wanted and what is there otherwise for nothing: two dropouts are not the same.
    """
    if _numbers(name) != _numbers(other):
        return False
    if is_misspelt(name, other) or sorted(map(_whole, words(name))) == sorted(map(_whole, words(other))):
        return True
    if is_setting(name) and is_setting(other):
        return _is_one_setting(name, other)
    short, long = sorted((plain(name), plain(other)), key=len)
    return len(short) >= LEAST and long.endswith(short)  # a layer_norm is a norm, an attn_dropout no attn


def _whole(word: str) -> str:
    return SHORTENED.get(word, word)


def _numbers(name: str) -> list[str]:
    return re.findall(r"\d+", name)


def _is_slip(one: str, other: str, fewest: int = LEAST) -> bool:
    """Whether one text is the other with a slip of the fingers: not two words that both mean something, or short ones.

    A slip is hardly ever the first letter, and what differs in its last letter, proj_q, is another of several.
    """
    least = min(len(one), len(other))
    if f"{one}s" == other or f"{other}s" == one:
        return least >= LEAST - 1
    if one in KNOWN and other in KNOWN:
        return False
    if least < (LEAST - 1 if sorted(one) == sorted(other) else fewest):
        return False
    if one[0] != other[0] and sorted(one[:2]) != sorted(other[:2]):
        return False
    if len(one) == len(other) and one[:-1] == other[:-1]:
        return False
    return _distance(one, other) <= (2 if least >= LONG else 1)


def _distance(one: str, other: str) -> int:
    """How many letters were left out, added, exchanged for another, or for their neighbour."""
    rows = [[*range(len(other) + 1)]]
    for i, letter in enumerate(one, 1):
        row = [i]
        for j, its in enumerate(other, 1):
            cost = min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (letter != its))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == its:
                cost = min(cost, rows[-2][j - 2] + 1)
            row.append(cost)
        rows.append(row)
    return rows[-1][-1]
