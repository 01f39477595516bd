"""Which pairs are trained on, which choose the best checkpoint, which are held out; what was left aside, and why."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

from scratch_transformer.translation.config import Data
from scratch_transformer.translation.corpus import numbers
from scratch_transformer.translation.corpus.files import Found, read_aligned, read_tsv
from scratch_transformer.translation.corpus.hub import read_hub
from scratch_transformer.translation.errors import InputError
from scratch_transformer.translation.tokenizer import normalized

Pair = tuple[str, str]

HELD_OUT, VALIDATION = 1000, 500


@dataclass(frozen=True)
class Corpus:
    """The three parts, without a pair in common. skipped: what is wrong with each line that made no pair."""

    training: list[Pair]
    validation: list[Pair]
    held_out: list[Pair]
    skipped: list[str]

    def fingerprint(self) -> str:
        """The same for the same pairs in the same order: a resumed run must go on with these."""
        sha256 = hashlib.sha256()
        for part in (self.training, self.validation, self.held_out):
            for pair in part:
                sha256.update("\t".join(pair).encode() + b"\n")
            sha256.update(b"\n")
        return sha256.hexdigest()


def read(data: Data) -> Corpus:
    """All pairs, once each, split at random by data.seed, or as data.valid and data.test say.

    Raises:
        InputError: they cannot be read, or are too few.
    """
    corpus = _drawn(data)
    skipped = corpus.skipped
    held_out = _pairs(read_tsv(data.test), skipped, data.test) if data.test else corpus.held_out
    validation = _pairs(read_tsv(data.valid), skipped, data.valid) if data.valid else corpus.validation
    validation = _without(validation, held_out, "validation", skipped)
    training = _without(corpus.training, [*held_out, *validation], "training", skipped)
    return Corpus(training, validation, held_out, skipped)


def _without(pairs: list[Pair], others: list[Pair], name: str, skipped: list[str]) -> list[Pair]:
    """The pairs of one part that are not in another."""
    taken = set(others)
    rest = [pair for pair in pairs if pair not in taken]
    if len(rest) < len(pairs):
        skipped.append(f"{len(pairs) - len(rest)} pairs for {name} that are validated with or held out too")
    if not rest:
        raise InputError(f"the data: no pair is left for {name}: all are in data.valid or data.test too")
    return rest


def _drawn(data: Data) -> Corpus:
    """The three parts, those empty that files of their own have."""
    if data.tsv is not None:
        return _split(read_tsv(data.tsv), data, data.tsv)
    if data.source_file is not None and data.target_file is not None:
        return _split(read_aligned(data.source_file, data.target_file), data, data.source_file)
    if data.hub is not None:
        return _split(read_hub(data.hub, data.source, data.target), data, data.hub)
    held_out, validation = _sizes(data, data.below, f"the numbers below {data.below}")
    drawn = numbers.draw(data.below, data.pairs or numbers.PAIRS, held_out + validation, Random(data.seed))
    pairs = [(normalized(source), normalized(target)) for source, target in numbers.in_words(drawn, data)]
    return Corpus(pairs[held_out + validation :], pairs[held_out : held_out + validation], pairs[:held_out], [])


def _split(found: Iterable[Found], data: Data, where: str) -> Corpus:
    skipped: list[str] = []
    shuffled = _pairs(found, skipped, where)
    held_out, validation = _sizes(data, len(shuffled), where)
    Random(data.seed).shuffle(shuffled)
    rest = shuffled[held_out + validation :]
    return Corpus(rest[: data.pairs], shuffled[held_out : held_out + validation], shuffled[:held_out], skipped)


def _pairs(found: Iterable[Found], skipped: list[str], where: str) -> list[Pair]:
    """The pairs, each once; `skipped` gets what is none.

    Raises:
        InputError: there is no pair.
    """
    pairs: dict[Pair, None] = {}  # a pair that comes twice must not be both trained on and held out
    reports = []
    for item in found:
        if isinstance(item, str):
            reports.append(item)
        else:
            pairs[normalized(item[0]), normalized(item[1])] = None
    if not pairs:
        raise InputError(f"{where}: holds no pair of sentences{f': {reports[0]}' if reports else ''}")
    skipped += reports
    return list(pairs)


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
