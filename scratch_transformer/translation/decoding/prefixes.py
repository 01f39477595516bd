"""The decoder as the model defines it: the whole prefix again at every step.

`IncrementalDecoder` must give these numbers, and is what to use; this is what it is tested and timed against.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from scratch_transformer import masks
from scratch_transformer.model import Transformer


class Decoder(Protocol):
    """What the searches need: K prefixes of each of B sources, in R = B·K rows."""

    def step(self, ids: Tensor) -> Tensor:
        """Append ids (R,): the logits (R, V) of the token that comes next."""

    def reorder(self, rows: Tensor) -> None:
        """Row r continues what was row rows[r], of the same source: (R,)."""

    def keep(self, sources: Tensor) -> None:
        """Go on with these of the sources: indices (B',)."""


class PrefixDecoder:
    """`model.decode` of all prefixes, with the arguments and results of `IncrementalDecoder`."""

    def __init__(self, model: Transformer, source_ids: Tensor, source_pad_id: int, K: int = 1) -> None:
        self.model, self.K = model, K
        source_mask = masks.padding(source_ids, source_pad_id)
        self.encoder_output = model.encode(source_ids, source_mask).repeat_interleave(K, dim=0)
        self.source_mask = source_mask.repeat_interleave(K, dim=0)
        self.prefixes = source_ids.new_empty(len(source_ids) * K, 0)  # (R, t)

    def step(self, ids: Tensor) -> Tensor:
        self.prefixes = torch.cat([self.prefixes, ids.unsqueeze(1)], dim=1)
        causal = masks.causal(self.prefixes.shape[1], device=ids.device)
        decoded = self.model.decode(self.encoder_output, self.source_mask, self.prefixes, causal)
        return self.model.project(decoded[:, -1])

    def reorder(self, rows: Tensor) -> None:
        self.prefixes = self.prefixes[rows]

    def keep(self, sources: Tensor) -> None:
        rows = (sources.unsqueeze(1) * self.K + torch.arange(self.K, device=sources.device)).flatten()
        self.prefixes = self.prefixes[rows]
        self.source_mask, self.encoder_output = self.source_mask[rows], self.encoder_output[rows]
