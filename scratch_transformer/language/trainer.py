"""What a step is made of, and how good a language model is: the loop's two questions, of one long text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import Module

from scratch_transformer.language import packing
from scratch_transformer.language.config import Config
from scratch_transformer.language.objective import Objective
from scratch_transformer.language_model import LanguageModel
from scratch_transformer.optim import AdamW
from scratch_transformer.translation import distribution
from scratch_transformer.translation.distribution import World
from scratch_transformer.translation.loop import Loop
from scratch_transformer.translation.validation import Result

Ids = NDArray[np.int32]


class Trainer(Loop):
    """A language model in training.

    training, validation: ids of `packing.pack`. end: the id between documents. data: the texts' fingerprint.
    """

    def __init__(
        self, config: Config, folder: Path, model: LanguageModel, training: Ids, validation: Ids, end: int, data: str,
        world: World,
    ) -> None:  # fmt: skip
        self.training, self.validation = training, validation
        self.length, self.batch_tokens = config.data.length, config.training.batch_tokens
        autocast = torch.bfloat16 if config.training.precision == "bfloat16" else None
        objective = Objective(model, end if config.data.apart else None, autocast)
        super().__init__(config, folder, objective, data, world)

    def optimizer_of(self, model: Module) -> AdamW:
        """AdamW, whose decay leaves biases and norms alone: what has one dimension."""
        t, parameters = self.config.training, list(model.parameters())
        groups = [
            {"params": [p for p in parameters if p.dim() > 1], "weight_decay": t.weight_decay},
            {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
        ]
        return AdamW([group for group in groups if group["params"]], betas=(t.beta1, t.beta2), eps=t.eps)

    def plan(self, epoch: int) -> Sequence[NDArray[np.int64]]:
        """The text, cut from another place in every epoch."""
        return packing.plan(self.training, self.length, self.batch_tokens, (self.config.training.seed, epoch))

    def steps(self, plan: Sequence[NDArray[np.int64]]) -> packing.Steps:
        """Shares of a batch, cut into pieces."""
        world = self.world
        pieces = self.config.training.accumulate
        return packing.Steps(self.training, self.length, plan, world.rank, world.processes, pieces)

    @torch.no_grad()
    def validate(self) -> Result:
        """The mean loss of the validation text's tokens, in sequences of data.length."""
        plan = packing.plan(self.validation, self.length, self.batch_tokens)
        steps = packing.Steps(self.validation, self.length, plan, self.world.rank, self.world.processes)
        self.wrapped.eval()
        sums = [self.wrapped(*steps[i].pieces[0].to(self.world.device)) for i in range(len(steps))]
        self.wrapped.train()
        distribution.reshard(self.wrapped)
        total = torch.stack(sums).cpu().double().sum(0)  # on the CPU, for some devices have no float64
        loss, same = (self.world.sum(total) / (len(self.validation) - 1)).tolist()
        return Result(loss, same, {}, [])
