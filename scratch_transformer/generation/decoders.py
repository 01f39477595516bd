"""The logits of the token after each text: with the keys and values of its tokens kept, or from the whole text again.

Both give the same numbers, up to rounding; the one without a cache is what the other is tested and timed against.
Shapes: R texts, L tokens, V = vocab_size. A mask (R, L) is True where a token is, False for the padding on its left.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from scratch_transformer.language_model import LanguageModel
from scratch_transformer.nn import KeyValueCache


class Decoder(Protocol):
    """R texts that grow by a token at a time."""

    def step(self, ids: Tensor) -> Tensor:
        """Append ids (R, L), at first the prompts, then one token to each: the logits (R, V) of what comes next."""

    def keep(self, rows: Tensor) -> None:
        """Go on with these texts: indices (R',)."""


class WholeTexts:
    """All tokens again at every step."""

    def __init__(self, model: LanguageModel, mask: Tensor, capacity: int) -> None:
        self.model, self.mask = model, mask
        self.ids = torch.empty(len(mask), 0, dtype=torch.long, device=mask.device)

    def step(self, ids: Tensor) -> Tensor:
        if self.ids.shape[1]:  # the prompts are in the mask already
            self.mask = torch.cat([self.mask, self.mask.new_ones(ids.shape)], dim=1)
        self.ids = torch.cat([self.ids, ids], dim=1)
        return self.model.project(self.model.states(self.ids, mask=self.mask)[:, -1])

    def keep(self, rows: Tensor) -> None:
        self.ids, self.mask = self.ids[rows], self.mask[rows]


class Cached:
    """The new tokens alone: T tokens cost T steps of one token each instead of T whole texts."""

    def __init__(self, model: LanguageModel, mask: Tensor, capacity: int) -> None:
        self.model = model
        self.cache = KeyValueCache(model.config.num_layers, capacity)
        # without padding there is nothing to mask, and nothing to count
        self.mask = None if mask.all() else torch.ones(len(mask), capacity, dtype=torch.bool, device=mask.device)
        if self.mask is not None:
            self.mask[:, : mask.shape[1]] = mask

    def step(self, ids: Tensor) -> Tensor:
        mask = None if self.mask is None else self.mask[:, : self.cache.length + ids.shape[1]]
        return self.model.project(self.model.states(ids, self.cache, mask)[:, -1])

    def keep(self, rows: Tensor) -> None:
        self.cache.reorder(rows)
        self.mask = None if self.mask is None else self.mask[rows]
