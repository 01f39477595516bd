"""The learning rate of a step: a linear warm-up to the peak, and what comes after it."""

from __future__ import annotations

import math

from scratch_transformer.optim import Adam, WarmupSchedule
from scratch_transformer.translation.settings import Settings


class Schedule:
    """For step s, w of warm-up, S in all: peak · s/w up to step w, and then, by `training.schedule`,

        cosine    peak · (1 + cos(π (s - w) / (S - w))) / 2      Loshchilov & Hutter 2017, equation 5, without restarts
        constant  peak

    peak: lr_factor / √(d_model · w), that of the paper's schedule. It is used like torch's schedulers.
    """

    def __init__(self, optimizer: Adam, config: Settings, done: int) -> None:
        self.optimizer, self.training, self.done = optimizer, config.training, done
        self.peak = config.training.lr_factor / math.sqrt(config.model.d_model * config.training.warmup_steps)
        self._set()

    def step(self) -> None:
        """After a step of the optimizer: the rate of the next one."""
        self.done += 1
        self._set()

    def get_last_lr(self) -> list[float]:
        """The rate that is set, of every group of parameters."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def _set(self) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = self.peak * self._factor(self.done + 1)

    def _factor(self, step: int) -> float:
        t = self.training
        if step <= t.warmup_steps:
            return step / t.warmup_steps
        if t.schedule == "constant" or t.steps <= t.warmup_steps:
            return 1.0
        share = min(1.0, (step - t.warmup_steps) / (t.steps - t.warmup_steps))
        return (1 + math.cos(math.pi * share)) / 2


def schedule_of(optimizer: Adam, config: Settings, done: int) -> WarmupSchedule | Schedule:
    """The schedule of a configuration, after `done` steps."""
    t = config.training
    if t.schedule != "inverse_sqrt":
        return Schedule(optimizer, config, done)
    paper = WarmupSchedule(optimizer, config.model.d_model, t.warmup_steps, t.lr_factor)
    paper.load_state_dict({**paper.state_dict(), "step": done + 1})
    return paper
