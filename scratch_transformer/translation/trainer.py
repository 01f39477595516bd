"""What a step is made of, and how good a translation is: the loop's two questions, of pairs of sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from scratch_transformer.model import Transformer
from scratch_transformer.translation import batches, distribution, validation
from scratch_transformer.translation.batches import Encoded, Steps
from scratch_transformer.translation.config import Config
from scratch_transformer.translation.distribution import World
from scratch_transformer.translation.loop import Loop
from scratch_transformer.translation.objective import Objective
from scratch_transformer.translation.tokenizer import Tokenizer


class Trainer(Loop):
    """A model that learns to translate.

    training, validation: encoded pairs. target: the vocabulary of the translations. data: the corpus's fingerprint.
    """

    def __init__(
        self, config: Config, folder: Path, model: Transformer, training: Encoded, validation: Encoded,
        target: Tokenizer, data: str, world: World,
    ) -> None:  # fmt: skip
        self.training, self.validation, self.target = training, validation, target
        t = config.training
        autocast = torch.bfloat16 if t.precision == "bfloat16" else None
        super().__init__(config, folder, Objective(model, t.label_smoothing, autocast), data, world)

    def plan(self, epoch: int) -> Sequence[NDArray[np.int64]]:
        """Pairs of like length together."""
        t = self.config.training
        return batches.plan(self.training, t.batch_tokens, (t.seed, epoch), t.pool)

    def steps(self, plan: Sequence[NDArray[np.int64]]) -> Steps:
        """Shares of a batch, cut into pieces."""
        world, t = self.world, self.config.training
        return Steps(self.training, list(plan), world.rank, world.processes, t.accumulate)

    def validate(self) -> validation.Result:
        """The loss of the validation pairs, and what some of them are translated to."""
        t, world = self.config.training, self.world
        loss, smoothed = validation.losses(self.wrapped, self.validation, t.batch_tokens, world)
        return replace(self._decode(), loss=loss, smoothed_loss=smoothed)

    def _decode(self) -> validation.Result:
        """By the main process alone; with FSDP, where no process has all weights, not at all."""
        t = self.config.training
        is_whole = not distribution.is_sharded(dict(self.objective.named_parameters()))
        count = t.exact_match if self.world.is_main and is_whole else 0
        return validation.matches(self.objective, self.validation, self.target, count, t.samples)
