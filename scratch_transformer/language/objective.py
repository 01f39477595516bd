"""The language model and its loss as one module: what torch.compile, DDP and FSDP wrap."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import Module

from scratch_transformer import functional
from scratch_transformer.language.packing import IGNORED
from scratch_transformer.language_model import LanguageModel


class Objective(Module):
    """Σ -log P(token t + 1 | tokens 0 … t) over a batch's targets. In evaluation twice, for nothing is smoothed.

    A sum, and no mean: a step divides by all its targets, of all pieces and processes. apart_at: the id that begins a
    document, whose tokens look at each other only and count their positions from it; None: all look at all before.
    """

    def __init__(self, model: LanguageModel, apart_at: int | None = None, autocast: torch.dtype | None = None) -> None:
        super().__init__()
        self.model = model
        self.apart_at = apart_at
        self.autocast = autocast

    def layers(self) -> list[Module]:
        """What FSDP gathers one after the other."""
        return list(self.model.blocks)

    def forward(self, ids: Tensor, targets: Tensor) -> Tensor:
        mask, positions = (None, None) if self.apart_at is None else documents(ids, self.apart_at)
        with torch.autocast(ids.device.type, self.autocast, enabled=self.autocast is not None):
            states = self.model.states(ids, mask=mask, positions=positions).flatten(0, 1)
            weight = self.model.embedding.weight if self.model.head is None else self.model.head.weight
            loss = functional.linear_cross_entropy(
                states, weight, targets.flatten(), ignore_index=IGNORED, reduction="sum"
            )
        return loss if self.training else torch.stack([loss, loss])


def documents(ids: Tensor, first: int) -> tuple[Tensor, Tensor]:
    """Which tokens are of one document, (B, 1, L, L), and how far each is from its beginning, (B, L).

    ids: (B, L), in which documents begin with the id `first`; what is before the first of them is one document, too.
    """
    begins = ids == first
    number = begins.cumsum(-1)
    places = torch.arange(ids.shape[-1], device=ids.device).expand_as(ids)
    start = torch.where(begins, places, 0).cummax(-1).values
    return (number.unsqueeze(-1) == number.unsqueeze(-2)).unsqueeze(1), places - start
