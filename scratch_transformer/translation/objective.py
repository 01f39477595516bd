"""The model and its loss as one module: what torch.compile, DDP and FSDP wrap."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor
from torch.nn import Module

from scratch_transformer import functional, masks
from scratch_transformer.model import Transformer
from scratch_transformer.translation.tokenizer import Tokenizer


class Objective(Module):
    """Σ ℓ over a batch's target tokens, ℓ the cross-entropy, smoothed in training (Vaswani et al. 2017, section 5.4).

    A sum, and no mean: a step divides by all its target tokens, of all pieces and processes. In evaluation two sums,
    not smoothed and smoothed.
    """

    def __init__(self, model: Transformer, label_smoothing: float, autocast: torch.dtype | None = None) -> None:
        super().__init__()
        self.model = model
        self.label_smoothing = label_smoothing
        self.autocast = autocast

    def layers(self) -> list[Module]:
        """What FSDP gathers one after the other."""
        return [*self.model.encoder.layers, *self.model.decoder.layers]

    def forward(self, source: Tensor, target_input: Tensor, target_output: Tensor) -> Tensor:
        with torch.autocast(source.device.type, self.autocast, enabled=self.autocast is not None):
            source_mask = masks.padding(source, Tokenizer.pad_id)
            # Padding is on the right: no token looks that far, and what padding itself computes is ignored below.
            target_mask = masks.causal(target_input.shape[1], device=source.device)
            logits = self.model(source, target_input, source_mask, target_mask)
        logits, target = logits.flatten(0, 1).float(), target_output.flatten()
        loss = partial(functional.cross_entropy, logits, target, None, Tokenizer.pad_id, "sum")
        smoothed = loss(self.label_smoothing)
        return smoothed if self.training else torch.stack([loss(0.0), smoothed])
