"""Pairs of similar length together, so that little of a batch is padding.

One plan says which pairs belong to which optimizer step; every process takes its share of each step. So the number of
processes, or a restart in the middle, changes nothing about what a step is made of.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, BinaryIO, NamedTuple, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from scratch_transformer.translation.tokenizer import Tokenizer

Ids = NDArray[np.integer[Any]]

TOGETHER = 10_000
"""Pairs that are encoded at once."""


class Batch(NamedTuple):
    """source (B, S); target_input (B, T) starts with bos, target_output (B, T) ends with eos; padded on the right."""

    source: Tensor
    target_input: Tensor
    target_output: Tensor

    def to(self, device: torch.device) -> Batch:
        return Batch(*(ids.to(device, non_blocking=True) for ids in self))


class Step(NamedTuple):
    """What one process computes of one optimizer step, in pieces; tokens: target tokens of all processes.

    A piece is a `Batch`, or what the objective of another task takes.
    """

    pieces: list[Any]
    tokens: int


class SizedSteps(Protocol):
    """The steps of an epoch as one process computes them, of whatever is learned."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Step: ...


class Sentences:
    """Many sequences in one array of ids, in memory or in a file that is mapped: cheap to share with other processes.

    ids: one sequence after the other. lengths: of each.
    """

    def __init__(self, ids: Ids, lengths: NDArray[np.int32]) -> None:
        self.ids, self.lengths = ids, lengths
        self.ends = np.cumsum(lengths, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> Ids:
        end = self.ends[index]
        return self.ids[end - self.lengths[index] : end]


class Encoded(NamedTuple):
    """Pairs as ids, both with eos; `pairs`, the same in words, where they are kept; overlong: how many were dropped or
    truncated.
    """

    pairs: list[tuple[str, str]]
    sources: Sentences
    targets: Sentences
    overlong: int


class _Growing:
    """Sequences of ids that come one after the other, for memory or, if there is one, for a file."""

    def __init__(self, tokenizer: Tokenizer, file: BinaryIO | None) -> None:
        self.ids, self.lengths = array("i"), array("i")
        self.dtype, self.file = tokenizer.dtype, file

    def add(self, ids: list[int]) -> None:
        self.ids.extend(ids)
        self.lengths.append(len(ids))

    def write(self) -> None:
        if self.file is not None:
            self.file.write(np.array(self.ids, self.dtype).tobytes())
            self.ids = array("i")

    def sentences(self) -> Sentences:
        ids: Ids = np.array(self.ids, self.dtype)
        if self.file is not None:
            self.file.flush()
            ids = np.memmap(self.file.name, self.dtype, "r") if self.file.tell() else ids
        return Sentences(ids, np.array(self.lengths, np.int32))


def encode(
    pairs: Iterable[tuple[str, str]], tokenizers: tuple[Tokenizer, Tokenizer], max_length: int, overlong: str = "drop",
    files: tuple[BinaryIO, BinaryIO] | None = None, keep_words: bool = True,
) -> Encoded:  # fmt: skip
    """The pairs as ids. Those with more than max_length tokens, eos included, are dropped or truncated.

    files: where the ids of sources and targets go, if not into memory.
    """
    sides = [_Growing(side, file) for side, file in zip(tokenizers, files or (None, None), strict=True)]
    words, too_long, remaining = [], 0, iter(pairs)
    while some := list(islice(remaining, TOGETHER)):
        ids = [side.encode_all([pair[i] for pair in some]) for i, side in enumerate(tokenizers)]
        for pair, *both in zip(some, *ids, strict=True):
            is_long = max(map(len, both)) >= max_length
            too_long += is_long
            if is_long and overlong == "drop":
                continue
            for side, one in zip(sides, both, strict=True):
                side.add([*one[: max_length - 1], Tokenizer.eos_id])
            if keep_words:
                words.append(pair)
        for side in sides:
            side.write()
    return Encoded(words, sides[0].sentences(), sides[1].sentences(), too_long)


def plan(
    encoded: Encoded, batch_tokens: int, shuffle: tuple[int, int] | None = None, pool: int | None = None
) -> list[NDArray[np.int64]]:
    """The indices of the pairs of each batch: as many as fit, padded, into batch_tokens, counted in each language.

    shuffle: (seed, epoch), which pairs of like lengths meet, and the order of the batches.
    pool: batches whose pairs are sorted by length together; None: all of them. Then short pairs only meet their like,
    in few steps, and are forgotten until the next epoch.
    """
    random = np.random.default_rng(shuffle) if shuffle else None
    order = random.permutation(len(encoded.sources)) if random else np.arange(len(encoded.sources))
    sources, targets = encoded.sources.lengths, encoded.targets.lengths
    widths = np.maximum(sources, targets)
    pairs = pool * batch_tokens * len(order) // int(widths.sum()) if pool else len(order)
    pools = np.arange(len(order)) // min(max(1, pairs), len(order))
    order = order[np.lexsort((sources[order], targets[order], pools))]
    cuts, start, widest = [0], 0, 0
    for i, width in enumerate(widths[order].tolist()):
        widest = max(widest, width)
        if widest * (i + 1 - start) > batch_tokens and i > start:
            cuts.append(i)
            start, widest = i, width
    batches = np.split(order, cuts[1:])
    return [batches[i] for i in random.permutation(len(batches))] if random else batches


def padded(sentences: list[Ids], pad_id: int) -> Tensor:
    """(B, longest): ids, then padding."""
    ids = np.full((len(sentences), max(map(len, sentences))), pad_id, dtype=np.int64)
    for row, sentence in zip(ids, sentences, strict=True):
        row[: len(sentence)] = sentence
    return torch.from_numpy(ids)


class Steps(Dataset[Step]):
    """The steps of one epoch, as one process computes them: shares of a batch, cut into pieces."""

    def __init__(
        self, encoded: Encoded, batches: list[NDArray[np.int64]], rank: int = 0, processes: int = 1, pieces: int = 1
    ) -> None:
        self.encoded, self.batches = encoded, batches
        self.shares = [(rank + processes * piece, processes * pieces) for piece in range(pieces)]

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: int) -> Step:
        batch = self.batches[index]
        tokens = int(self.encoded.targets.lengths[batch].sum())
        pieces = [self._batch(batch[share::shares]) or self._nothing() for share, shares in self.shares]
        return Step(pieces, tokens)

    def _batch(self, indices: NDArray[np.int64]) -> Batch | None:
        if not len(indices):
            return None
        targets = [self.encoded.targets[i] for i in indices]
        output = padded(targets, Tokenizer.pad_id)
        inputs = output.roll(1, dims=1)  # the last token of the longest, eos, comes to the front, and becomes bos
        inputs[:, 0] = Tokenizer.bos_id
        inputs[inputs == Tokenizer.eos_id] = Tokenizer.pad_id
        return Batch(padded([self.encoded.sources[i] for i in indices], Tokenizer.pad_id), inputs, output)

    def _nothing(self) -> Batch:
        """A share without pairs must take part in the exchange of gradients all the same: its loss is ignored."""
        end = torch.full((1, 1), Tokenizer.eos_id)
        return Batch(end, torch.full((1, 1), Tokenizer.bos_id), torch.full((1, 1), Tokenizer.pad_id))


def load(steps: SizedSteps, start: int = 0, workers: int = 0, pin_memory: bool = False) -> Iterator[Step]:
    """The steps from `start` on, prepared by `workers` other processes.

    The loader has a generator of its own: it draws a seed, which the dropout of the model must not notice.
    """
    loader: DataLoader[Step] = DataLoader(
        cast(Dataset[Step], steps), batch_size=None, sampler=range(start, len(steps)), num_workers=workers,
        pin_memory=pin_memory, generator=torch.Generator(),
    )  # fmt: skip
    return iter(loader)
