"""Documents one behind the other, cut into sequences of one length: no token is padding.

    end document end document end ... document end      `pack`: one long row of ids, END between two documents
    |─ input ─|─ input ─|─ ...                           cut every `length` tokens, from another place in every epoch
     |─ target ─|─ target ─|─ ...                        the same, one token later

One plan says which sequences belong to which optimizer step; every process takes its share of each step. So the number
of processes, or a restart in the middle, changes nothing about what a step is made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scratch_transformer.language.vocabulary import Vocabulary
from scratch_transformer.translation.batches import Step

IGNORED = -100
"""A target that does not count."""


class Batch(NamedTuple):
    """ids and the targets that come after them, both (B, L)."""

    ids: Tensor
    targets: Tensor

    def to(self, device: torch.device) -> Batch:
        return Batch(*(ids.to(device, non_blocking=True) for ids in self))


def pack(documents: Sequence[str], vocabulary: Vocabulary) -> NDArray[np.int32]:
    """The ids of all documents, and eos_id before, between and behind them: 4 bytes a token."""
    end = [vocabulary.eos_id]
    parts = [np.array(end + ids, dtype=np.int32) for ids in vocabulary.encode_all(documents)]
    return np.concatenate([*parts, np.array(end, dtype=np.int32)])


def plan(
    ids: NDArray[np.int32], length: int, batch_tokens: int, shuffle: tuple[int, int] | None = None
) -> list[NDArray[np.int64]]:
    """Where the sequences of each batch begin: as many as there are tokens for, batch_tokens / length in a batch.

    shuffle: (seed, epoch), from which place on the row is cut, and the order of the sequences. Without: from the
    beginning, in order; the last sequence is shorter, so that every target counts once.
    """
    if shuffle is None:
        starts = np.arange(0, len(ids) - 1, length)
    else:
        random = np.random.default_rng(shuffle)
        first = int(random.integers(min(length, len(ids) - length)))
        starts = random.permutation(np.arange(first, len(ids) - length, length))
    per_batch = batch_tokens // length
    return np.split(starts, np.arange(per_batch, len(starts), per_batch))


class Steps:
    """The steps of one epoch, as one process computes them: shares of a batch, cut into pieces."""

    def __init__(
        self, ids: NDArray[np.int32], length: int, batches: Sequence[NDArray[np.int64]],
        rank: int = 0, processes: int = 1, pieces: int = 1,
    ) -> None:  # fmt: skip
        self.ids, self.length, self.batches = ids, length, batches
        self.shares = [(rank + processes * piece, processes * pieces) for piece in range(pieces)]

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: int) -> Step:
        starts = self.batches[index]
        tokens = int(np.minimum(self.length, len(self.ids) - 1 - starts).sum())
        return Step([self._batch(starts[share::shares]) for share, shares in self.shares], tokens)

    def _batch(self, starts: NDArray[np.int64]) -> Batch:
        """A share without sequences takes part in the exchange of gradients all the same: one that does not count."""
        if not len(starts):
            return Batch(torch.zeros(1, 1, dtype=torch.long), torch.full((1, 1), IGNORED))
        places = starts[:, None] + np.arange(self.length + 1)
        row = np.where(places < len(self.ids), self.ids[np.minimum(places, len(self.ids) - 1)], IGNORED)
        both = torch.from_numpy(row.astype(np.int64))
        return Batch(both[:, :-1].clamp_min(0), both[:, 1:])
