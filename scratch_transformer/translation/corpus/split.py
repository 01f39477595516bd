"""Which pairs are trained on, which choose the best checkpoint, which are held out; what was left aside, and why.

A corpus may be larger than memory: its text is read several times and never kept, but for the pairs that are not
trained on. Of the others a number is kept, by which equal pairs are found.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from random import Random

import numpy as np
from numpy.typing import NDArray

from scratch_transformer.translation.config import Data
from scratch_transformer.translation.corpus import numbers
from scratch_transformer.translation.corpus.files import read_aligned, read_tsv
from scratch_transformer.translation.corpus.hub import read_hub
from scratch_transformer.translation.corpus.source import (
    Chosen,
    Digests,
    Pair,
    Source,
    digests,
    digests_of,
    pairs_of,
    repeatable,
)
from scratch_transformer.translation.errors import InputError

Positions = NDArray[np.int64]

HELD_OUT, VALIDATION = 1000, 500


@dataclass(frozen=True)
class Corpus:
    """The three parts, without a pair in common; training: read anew whenever it is iterated, in the data's order.

    skipped: what is wrong with each line that made no pair. fingerprint: the same for the same pairs in the same order:
    a resumed run must go on with these.
    """

    training: Collection[Pair]
    validation: list[Pair]
    held_out: list[Pair]
    skipped: list[str]
    fingerprint: str


def read(data: Data) -> Corpus:
    """All pairs, once each, split at random by data.seed, or as data.valid and data.test say.

    Raises:
        InputError: they cannot be read, or are too few.
    """
    skipped: list[str] = []
    source, where = _source(data)
    known = digests(source, skipped, where)
    chosen, drawn_validation, drawn_held_out = _split(source, known, data, where)
    held_out = _of_file(data.test, skipped) if data.test else drawn_held_out
    validation = _without(_of_file(data.valid, skipped) if data.valid else drawn_validation, held_out, skipped)
    others = [digests_of(part) for part in (validation, held_out)]
    rest = chosen & ~np.isin(known, np.concatenate(others))
    _say_left_out(int(chosen.sum()), int(rest.sum()), "training", skipped)
    sha256 = hashlib.sha256()
    for part in (known[rest], *others):
        sha256.update(part.tobytes() + b"\n")
    return Corpus(Chosen(source, rest), validation, held_out, skipped, sha256.hexdigest())


def _source(data: Data) -> tuple[Source, str]:
    """Where the pairs are from, and how to call that in errors."""
    if data.tsv is not None:
        return repeatable(partial(read_tsv, data.tsv), data.tsv), data.tsv
    if data.source_file is not None and data.target_file is not None:
        aligned = partial(read_aligned, data.source_file, data.target_file)
        return repeatable(aligned, data.source_file, data.target_file), data.source_file
    if data.hub is not None:
        return partial(read_hub, data.hub, data.source, data.target), data.hub
    where = f"the numbers below {data.below}"
    kept = sum(_sizes(data, data.below, where))
    drawn = numbers.draw(data.below, data.pairs or numbers.PAIRS, kept, Random(data.seed))
    words = numbers.in_words(drawn, data)
    return lambda: words, where


def _split(source: Source, known: Digests, data: Data, where: str) -> tuple[NDArray[np.bool_], list[Pair], list[Pair]]:
    """Which pairs are for training; the pairs for validation and the held-out ones, where no file has them."""
    if data.tsv is data.source_file is data.hub is None:  # numbers: drawn as they shall be split, some several times
        positions, most = np.arange(len(known)), None
        held_out, validation = _sizes(data, data.below, where)
    else:
        positions, most = _shuffled(known, data.seed), data.pairs
        held_out, validation = _sizes(data, len(positions), where)
    kept = held_out + validation
    is_chosen = np.zeros(len(known), np.bool_)
    is_chosen[positions[kept:][:most]] = True
    texts = _texts(source, positions[:kept], len(known))
    return is_chosen, texts[held_out:], texts[:held_out]


def _shuffled(known: Digests, seed: int) -> Positions:
    """The pairs, once each, or one that comes twice could be both trained on and held out; in an order by chance."""
    first = np.sort(np.unique(known, return_index=True)[1])
    order = array("q", range(len(first)))
    Random(seed).shuffle(order)
    return first[np.frombuffer(order, np.int64)]


def _texts(source: Source, positions: Positions, count: int) -> list[Pair]:
    """The pairs at these of all positions."""
    is_wanted = np.zeros(count, np.bool_)
    is_wanted[positions] = True
    found = dict(zip(np.sort(positions).tolist(), Chosen(source, is_wanted), strict=True))
    return [found[position] for position in positions.tolist()]


def _of_file(path: str, skipped: list[str]) -> list[Pair]:
    """The pairs of a file of their own, once each."""
    found = list(read_tsv(path))
    digests(lambda: found, skipped, path)
    return list(dict.fromkeys(pairs_of(found)))


def _without(pairs: list[Pair], others: list[Pair], skipped: list[str]) -> list[Pair]:
    """The pairs to validate with that are not held out."""
    taken = set(others)
    rest = [pair for pair in pairs if pair not in taken]
    _say_left_out(len(pairs), len(rest), "validation", skipped)
    return rest


def _say_left_out(before: int, after: int, name: str, skipped: list[str]) -> None:
    if after < before:
        skipped.append(f"{before - after} pairs for {name} that are validated with or held out too")
    if not after:
        raise InputError(f"the data: no pair is left for {name}: all are in data.valid or data.test too")


def _sizes(data: Data, count: int, where: str) -> tuple[int, int]:
    """How many pairs are held out and kept for validation, of `count`: none for which there is a file."""
    held_out = max(1, min(HELD_OUT, count // 10)) if data.held_out is None else data.held_out
    validation = max(1, min(VALIDATION, count // 20)) if data.validation is None else data.validation
    held_out, validation = 0 if data.test else held_out, 0 if data.valid else validation
    if held_out + validation >= count:
        raise InputError(
            f"{where}: only {count} different pairs, too few to hold out {held_out}, keep {validation} for validation "
            "and train on the rest: expected more, or smaller data.held_out and data.validation"
        )
    return held_out, validation
