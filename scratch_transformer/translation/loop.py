"""The loop of a training: steps, and every so often a validation and a checkpoint. Vaswani et al. 2017, section 5."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module
from torch.nn.utils import clip_grad_norm_

from scratch_transformer.optim import Adam
from scratch_transformer.translation import batches, distribution, saving, schedules
from scratch_transformer.translation.batches import SizedSteps, Step
from scratch_transformer.translation.distribution import World
from scratch_transformer.translation.errors import InputError
from scratch_transformer.translation.logs import Log
from scratch_transformer.translation.settings import Settings
from scratch_transformer.translation.validation import Result


class Loop(ABC):
    """A model in training. It continues from the last checkpoint in `folder`, where there is one.

    A subclass says what the steps of an epoch are made of, and how good the model is. objective: the model and its loss
    (`Objective`, or one for another task). data: the fingerprint of what is trained on.
    """

    def __init__(self, config: Settings, folder: Path, objective: Any, data: str, world: World) -> None:
        self.config, self.folder, self.world, self.data = config, folder, world, data
        t = config.training
        self.objective = objective.to(world.device)
        model: Module = objective.model
        self.wrapped: Module = distribution.wrap(self.objective, t.engine, world)
        self.compiled = torch.compile(self.wrapped, dynamic=True) if t.compile else self.wrapped
        self.optimizer = self.optimizer_of(model)
        self.state = saving.restore(folder, data, model, self.optimizer)
        self.schedule = schedules.schedule_of(self.optimizer, config, self.state.step)

    def optimizer_of(self, model: Module) -> Adam:
        """The paper's; a subclass may have another of Adam's kind."""
        t = self.config.training
        return Adam(model.parameters(), betas=(t.beta1, t.beta2), eps=t.eps)

    @abstractmethod
    def plan(self, epoch: int) -> Sequence[Any]:
        """What each step of an epoch is made of, the same in all processes."""

    @abstractmethod
    def steps(self, plan: Sequence[Any]) -> SizedSteps:
        """The steps as this process computes them."""

    @abstractmethod
    def validate(self) -> Result:
        """How good the model is; all processes take part."""

    def run(self, log: Log | None) -> None:
        """Train until the last step, or until validations no longer get better. log: of the main process."""
        t, state = self.config.training, self.state
        if log:
            saving.prune(self.folder, t.keep)
        losses: list[Tensor] = []
        tokens, since = 0, time.perf_counter()
        while not self._is_over():
            for step in self._rest_of_the_epoch():
                losses.append(self._step(step))
                tokens += step.tokens
                if state.step % t.log_every == 0 or self._is_due():
                    speed = tokens / (time.perf_counter() - since)
                    self._report(torch.stack(losses), speed, log)
                    losses, tokens, since = [], 0, time.perf_counter()
                if self._is_due():
                    self._validate(log)
                    since = time.perf_counter()
                    if self._is_over():
                        break
        if log and state.step < t.steps:
            score = "lower loss" if t.best == "loss" else f"higher {t.best}"
            log.say(
                f"ended early, at step {state.step} of {t.steps}: {state.waited} validations without a {score} than at "
                f"step {state.best_step}"
            )

    def _is_due(self) -> bool:
        t = self.config.training
        return self.state.step % t.checkpoint_every == 0 or self.state.step == t.steps

    def _is_over(self) -> bool:
        t, state = self.config.training, self.state
        return state.step >= t.steps or 0 < t.patience <= state.waited

    def _rest_of_the_epoch(self) -> Iterator[Step]:
        state, plan = self.state, self.plan(self.state.epoch)
        if state.step == state.epoch_start + len(plan):
            state.epoch, state.epoch_start = state.epoch + 1, state.step
            plan = self.plan(state.epoch)
        start, workers = state.step - state.epoch_start, self.config.training.workers
        return batches.load(self.steps(plan), start, workers, pin_memory=self.world.device.type == "cuda")

    def _step(self, step: Step) -> Tensor:
        """One step of the optimizer; returns this process's part of the mean loss of a target token."""
        world, t = self.world, self.config.training
        # Drawn anew for each step, dropout needs no state of a generator in the checkpoint.
        seed = np.random.SeedSequence([t.seed, self.state.step, world.rank]).generate_state(1, np.uint64)[0]
        torch.manual_seed(int(seed) >> 1)
        total = torch.zeros((), device=world.device)
        for number, piece in enumerate(step.pieces, start=1):
            is_last = number == len(step.pieces)
            with distribution.without_exchange(self.wrapped, unless=is_last):
                loss = self.compiled(*piece.to(world.device)) / step.tokens
                (loss * world.processes).backward()  # DDP and FSDP divide by their number
            total += loss.detach()
        if t.clip:
            clip_grad_norm_(self.objective.parameters(), t.clip)
        self.optimizer.step()
        self.schedule.step()
        self.optimizer.zero_grad()
        self.state.step += 1
        return total

    def _report(self, losses: Tensor, speed: float, log: Log | None) -> None:
        loss = self.world.sum(losses).mean().item()
        self._check("the loss", loss)
        if log:
            log.trained(self.state.step, loss, self.schedule.get_last_lr()[0], speed)

    def _check(self, name: str, loss: float) -> None:
        if not math.isfinite(loss):
            raise InputError(
                f"{name} is {loss} at step {self.state.step}: expected training.lr_factor to be smaller than "
                f"{self.config.training.lr_factor}, or training.clip to be set"
            )

    def _validate(self, log: Log | None) -> None:
        t, world = self.config.training, self.world
        result = self.validate()
        self._check("the loss of validation", result.smoothed_loss)
        self.state.validated(self._score(result))
        if log:
            log.validated(self.state.step, result)  # before: what is logged twice is noticed, what is not is lost
        saving.save(self.folder, self.state, self.data, self.objective.model, self.optimizer, world)
        if log:
            saving.prune(self.folder, t.keep)

    def _score(self, result: Result) -> float:
        """What chooses the best checkpoint, the same in all processes."""
        best = self.config.training.best
        if best == "loss":  # as it is trained: unsmoothed, it prefers a model that is surer of itself
            return -result.smoothed_loss
        return self.world.sum(torch.tensor(result.scores.get(best, 0.0), dtype=torch.float32)).item()
