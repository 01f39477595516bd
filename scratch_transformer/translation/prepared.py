"""What a training needs of its corpus: the vocabularies, and the pairs as ids, in memory or in the run's folder.

RUN/data/source.ids, target.ids           ids of all training pairs, one sentence after the other, mapped into memory
RUN/data/lengths.npy                      how many of them each sentence has: (2, pairs)
RUN/data/validation.jsonl, held_out.jsonl the other pairs, in words
RUN/data/data.json                        the fingerprint, and the checksums of the vocabularies

This folder is whole, or not there; once it is, the run needs the corpus no more.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from scratch_transformer.translation import checkpoint, corpus, tokenizer
from scratch_transformer.translation.batches import Encoded, Sentences, encode
from scratch_transformer.translation.config import FORMAT, Config
from scratch_transformer.translation.corpus import Corpus, Pair
from scratch_transformer.translation.distribution import World
from scratch_transformer.translation.errors import InputError
from scratch_transformer.translation.files import (
    digest,
    read_bytes,
    read_json,
    sync_folder,
    write_bytes,
    write_json,
    writing,
)
from scratch_transformer.translation.tokenizer import Tokenizer

Say = Callable[[str], object]

UNKNOWN = 0.02
"""Share of unknown tokens above which a vocabulary is too small to learn from."""
LEARN = 1_000_000
"""Most pairs that a vocabulary is learned from: every second, every third, ... if there are more."""
LOOK = 1_000_000
"""Tokens in which unknown ones are counted."""


@dataclass(frozen=True)
class Prepared:
    """training: without its words. validation, held_out: with them. fingerprint: of all pairs."""

    training: Encoded
    validation: Encoded
    held_out: list[Pair]
    skipped: list[str]
    source: Tokenizer
    target: Tokenizer
    fingerprint: str


def prepare(config: Config, folder: Path, world: World, say: Say) -> Prepared:
    """The corpus of a run, new or gone on with. say: gets lines for people, of the main process.

    Raises:
        InputError: it cannot be read, leaves nothing to train on, or is damaged.
    """
    if config.data.on_disk:
        world.main_first(lambda: None if (folder / "data").exists() else _store(config, folder, say))
        return _stored(config, folder)
    say(f"reading {in_words(config)} ...")
    pairs = corpus.read(config.data)
    _say_skipped(pairs.skipped, folder, say)
    world.main_first(lambda: _learn(config, folder, pairs))
    return _encoded(config, pairs, _vocabularies(config, folder), say)


def in_words(config: Config) -> str:
    """Where the pairs are from."""
    data = config.data
    if data.tsv or data.hub:
        return str(data.tsv or data.hub)
    if data.source_file:
        return f"{data.source_file} and {data.target_file}"
    return f"numbers below {data.below:,} in words, {data.source} to {data.target}"


# ---- Vocabularies ----


def _learn(config: Config, folder: Path, pairs: Corpus) -> None:
    """The run's vocabularies: learned from the training pairs, or those of an earlier training, or of others."""
    if checkpoint.checkpoints(folder):  # once weights are saved, no other vocabulary will do
        return
    t, start = config.tokens, config.training.start
    for side, name in enumerate(checkpoint.tokenizer_names(config)):
        ready = t.target_file if side else t.file
        if start or ready:
            path = checkpoint.run_of(Path(start)) / name if start else Path(ready or "")
            Tokenizer.load(path)  # before it is taken
            write_bytes(folder / name, read_bytes(path))
            continue
        some = islice(pairs.training, 0, None, math.ceil(len(pairs.training) / LEARN))
        texts = (pair[i] for pair in some for i in ((0, 1) if t.shared else (side,)))
        size = t.target_vocab_size if side and t.target_vocab_size else t.vocab_size
        tokenizer.train(t.kind, size, texts, t.byte_fallback).save(folder / name)


def _vocabularies(config: Config, folder: Path) -> tuple[Tokenizer, Tokenizer]:
    found = checkpoint.checkpoints(folder)
    return checkpoint.read_tokenizers(folder, config, checkpoint.read_checksums(found[-1]) if found else None)


# ---- Ids ----


def _encoded(
    config: Config, pairs: Corpus, tokenizers: tuple[Tokenizer, Tokenizer], say: Say,
    files: tuple[BinaryIO, BinaryIO] | None = None,
) -> Prepared:  # fmt: skip
    data, (source, target) = config.data, tokenizers
    training = encode(pairs.training, tokenizers, data.max_length, data.overlong, files, keep_words=False)
    validation, held_out = (encode(part, tokenizers, data.max_length) for part in (pairs.validation, pairs.held_out))
    overlong = training.overlong + validation.overlong + held_out.overlong
    if overlong:
        became = "dropped" if data.overlong == "drop" else "truncated (held-out and validation pairs: dropped)"
        say(f"{overlong} pairs have more than data.max_length = {data.max_length} tokens: {became}")
    if not all(len(part.sources) for part in (training, validation, held_out)):
        raise InputError(f"data.max_length is {data.max_length}: too short, no pair is left to train on or to validate")
    _warn(config, training, validation, tokenizers, say)
    return Prepared(training, validation, held_out.pairs, pairs.skipped, source, target, pairs.fingerprint)


def _warn(
    config: Config, training: Encoded, validation: Encoded, tokenizers: tuple[Tokenizer, Tokenizer], say: Say
) -> None:
    """Of what the vocabularies lose."""
    t, start = config.tokens, config.training.start
    ready = None if start else t.target_file or t.file
    hint = f"data in the languages of {start}" if start else "another --tokenizer" if ready else "a larger --vocab-size"
    for name, side, known in zip(("source", "target"), (training.sources, training.targets), tokenizers, strict=True):
        unknown = float((side.ids[:LOOK] == known.unk_id).mean())
        if unknown > UNKNOWN:
            say(f"Warning: {unknown:.0%} of the {name} tokens are unknown: expected {hint}")
    if ready:
        decoded = [tokenizers[1].decode(validation.targets[i]) for i in range(len(validation.pairs))]
        lost = sum(text != pair[1] for text, pair in zip(decoded, validation.pairs, strict=True)) / len(decoded)
        if lost > UNKNOWN:
            say(f"Warning: {lost:.0%} of the target sentences do not come back from {ready} as they were")


def _say_skipped(skipped: list[str], folder: Path, say: Say) -> None:
    """The first few lines that made no pair."""
    for line in skipped[:5]:
        say(f"skipped: {line}")
    if len(skipped) > 5:
        say(f"skipped: {len(skipped)} lines in all, listed in {folder / 'skipped.txt'}")


# ---- In the run's folder ----


def _store(config: Config, folder: Path, say: Say) -> None:
    """Read the corpus, and write RUN/data."""
    say(f"reading {in_words(config)} ...")
    pairs = corpus.read(config.data)
    _say_skipped(pairs.skipped, folder, say)
    say(f"learning the vocabulary of {len(pairs.training):,} pairs ...")
    _learn(config, folder, pairs)
    say(f"writing {folder / 'data'} ...")
    new = folder / ".new-data"
    shutil.rmtree(new, ignore_errors=True)
    with writing(new), ExitStack() as closing:
        new.mkdir()
        files = [closing.enter_context((new / name).open("wb")) for name in ("source.ids", "target.ids")]
        data = _encoded(config, pairs, _vocabularies(config, folder), say, (files[0], files[1]))
        for file in files:
            os.fsync(file.fileno())
        np.save(new / "lengths.npy", np.stack([data.training.sources.lengths, data.training.targets.lengths]))
    write_pairs(new / "validation.jsonl", data.validation.pairs)
    write_pairs(new / "held_out.jsonl", data.held_out)
    checksums = {name: digest(folder / name) for name in checkpoint.tokenizer_names(config)}
    about = {"format": FORMAT, "fingerprint": data.fingerprint, "skipped": pairs.skipped, "sha256": checksums}
    write_json(new / "data.json", about)
    new.rename(folder / "data")
    sync_folder(folder)


def _stored(config: Config, folder: Path) -> Prepared:
    """What RUN/data has."""
    data = folder / "data"
    about = read_json(data / "data.json")
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise InputError(f"{data / 'data.json'}: is nothing that this program wrote: without {data} it is made anew")
    source, target = checkpoint.read_tokenizers(folder, config, about["sha256"])
    lengths = _lengths(data / "lengths.npy")
    sources = _mapped(data / "source.ids", lengths[0], source)
    targets = _mapped(data / "target.ids", lengths[1], target)
    training = Encoded([], sources, targets, 0)
    held_out = checkpoint.read_pairs(data / "held_out.jsonl")
    validation = encode(checkpoint.read_pairs(data / "validation.jsonl"), (source, target), config.data.max_length)
    return Prepared(training, validation, held_out, about["skipped"], source, target, about["fingerprint"])


def _lengths(path: Path) -> NDArray[np.int32]:
    try:
        lengths: NDArray[np.int32] = np.load(path)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"cannot read {path}: {error}; without {path.parent} it is made anew") from None
    return lengths


def _mapped(path: Path, lengths: NDArray[np.int32], tokens: Tokenizer) -> Sentences:
    try:
        ids = np.memmap(path, tokens.dtype, "r")
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}; without {path.parent} it is made anew") from None
    if len(ids) != int(lengths.sum(dtype=np.int64)):
        raise InputError(f"{path}: is damaged: it has {len(ids)} tokens; without {path.parent} it is made anew")
    return Sentences(ids, lengths)


def write_pairs(path: Path, pairs: list[Pair]) -> None:
    """One ["source", "target"] a line."""
    write_bytes(path, "".join(json.dumps(pair, ensure_ascii=False) + "\n" for pair in pairs).encode())
