"""Pairs that are read again and again, for their text may be larger than memory; and what is remembered of each."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import compress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scratch_transformer.translation.corpus.files import Found
from scratch_transformer.translation.errors import InputError
from scratch_transformer.translation.tokenizer import normalized

Pair = tuple[str, str]
Source = Callable[[], Iterable[Found]]
"""Reads all pairs anew at every call."""
Digests = NDArray[np.uint64]


@dataclass(frozen=True)
class Chosen(Collection[Pair]):
    """Some of the pairs of a source, those that `is_chosen` (all pairs,) says, in their order.

    Raises InputError while it is iterated, when there are fewer than before.
    """

    source: Source
    is_chosen: NDArray[np.bool_]

    def __len__(self) -> int:
        return int(self.is_chosen.sum())

    def __iter__(self) -> Iterator[Pair]:
        count = 0
        for pair in compress(pairs_of(self.source()), self.is_chosen.tobytes()):
            yield pair
            count += 1
        if count < len(self):
            raise InputError("the data have changed while they were read: they have fewer pairs now")

    def __contains__(self, pair: object) -> bool:
        return any(pair == other for other in self)


def repeatable(source: Source, *paths: str) -> Source:
    """A pipe can be read once: what comes from one is kept."""
    if all(Path(path).is_file() for path in paths):
        return source
    found = list(source())
    return lambda: found


def pairs_of(found: Iterable[Found]) -> Iterator[Pair]:
    """Those that are pairs, in the one way to write them."""
    return ((normalized(item[0]), normalized(item[1])) for item in found if not isinstance(item, str))


def digests(source: Source, skipped: list[str], where: str) -> Digests:
    """A number for every pair, the same for equal ones, and in all likelihood for no others; `skipped` gets the rest.

    Raises:
        InputError: there is no pair.
    """
    reports: list[str] = []
    found = array("Q", map(_digest, pairs_of(_reporting(source(), reports))))
    if not found:
        raise InputError(f"{where}: holds no pair of sentences{f': {reports[0]}' if reports else ''}")
    skipped += reports
    return np.frombuffer(found, np.uint64)


def digests_of(pairs: list[Pair]) -> Digests:
    """The same of pairs in memory."""
    return np.array(list(map(_digest, pairs)), np.uint64)


def _reporting(found: Iterable[Found], reports: list[str]) -> Iterator[Found]:
    for item in found:
        if isinstance(item, str):
            reports.append(item)
        yield item


def _digest(pair: Pair) -> int:
    return int.from_bytes(hashlib.blake2b("\t".join(pair).encode(), digest_size=8).digest(), "little")
