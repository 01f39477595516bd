"""Two libraries trained side by side, and how far apart they are after each step."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor

from scratch_transformer.conformance.measures import relative_error
from scratch_transformer.conformance.switches import exact
from scratch_transformer.conformance.training import reversal
from scratch_transformer.conformance.training.library import BUILTIN, FULL, OURS, Library, Settings

LIMIT = 1e-9
"""Largest relative difference of the losses at any step, and of the parameters after the last."""

KEY_BIAS_LIMIT = 1e-6
"""Farthest that the bias of a key may move.

It adds the same to all scores of a query, which the softmax doesn't see, so its gradient is zero but for rounding. Adam
divides these rounding errors by their own size plus ε = 1e-9: what is left is no direction, but not quite zero.
"""

IN_PROJ_BIAS = "in_proj_bias"
"""How the names of the tensors end that hold the biases of queries, keys and values, in this order."""

LEARNED = 0.95
"""Smallest share of held-out strings that are right to the last digit, for the task to count as learned."""


@dataclass(frozen=True)
class Side:
    """What became of one library.

    losses: at every step. accuracy: the share of held-out strings, decoded greedily, that are right to the last digit.
    key_bias: how far the bias of a key has moved. seconds: of the steps alone.
    """

    name: str
    losses: tuple[float, ...]
    accuracy: float
    key_bias: float
    seconds: float


@dataclass(frozen=True)
class Parity:
    """Two training runs compared.

    same_start: whether all parameters were bitwise equal before the first step. parameter_error: the largest relative
    difference, ‖ours - builtin‖∞ / ‖builtin‖∞, of a parameter after the last, without the biases of the keys.
    """

    settings: Settings
    ours: Side
    builtin: Side
    same_start: bool
    parameter_error: float

    @property
    def differences(self) -> tuple[float, ...]:
        """|ours - builtin| / |builtin| of the losses, step by step; infinite where one of them is not finite."""
        pairs = zip(self.ours.losses, self.builtin.losses, strict=True)
        return tuple(abs(a - b) / abs(b) if math.isfinite(a) and math.isfinite(b) else math.inf for a, b in pairs)

    @property
    def growth(self) -> tuple[float, ...]:
        """The largest difference so far, step by step."""
        return tuple(itertools.accumulate(self.differences, max))

    @property
    def agrees(self) -> bool:
        """Whether both runs are the same but for rounding."""
        errors = (*self.differences, self.parameter_error)
        key_bias = max(self.ours.key_bias, self.builtin.key_bias)
        return self.same_start and max(errors) <= LIMIT and key_bias <= KEY_BIAS_LIMIT

    @property
    def passed(self) -> bool:
        """Whether both runs are the same, and have learned the task."""
        return self.agrees and min(self.ours.accuracy, self.builtin.accuracy) >= LEARNED


def train(
    settings: Settings = FULL,
    ours: Library = OURS,
    builtin: Library = BUILTIN,
    progress: Callable[[int], object] = lambda step: None,
) -> Parity:
    """Train both from the same seed on the same batches, in float64 on the CPU, with dropout.

    progress: called with the number of each step done, from 1.
    """
    random = Random(settings.seed)
    held_out = reversal.draw(settings.held_out, settings.lengths, random)
    unseen = frozenset(held_out)
    with exact():
        runs = [_Run(library, settings) for library in (ours, builtin)]
        same_start = _largest_error(runs[0].start, runs[1].start) == 0
        for step in range(1, settings.steps + 1):
            strings = reversal.draw(settings.batch_size, settings.lengths, random, without=unseen)
            for run in runs:
                run.step(*reversal.batch(strings))
            progress(step)
        parameter_error = _largest_error(*(_without_key_biases(run.state()) for run in runs))
        our_side, builtin_side = (run.side(*reversal.batch(held_out)) for run in runs)
    return Parity(settings, our_side, builtin_side, same_start, parameter_error)


class _Run:
    """One library being trained. It draws from a stream of random numbers of its own, as if it ran alone."""

    def __init__(self, library: Library, settings: Settings) -> None:
        torch.manual_seed(settings.seed)
        self.library = library
        self.model = library.model(settings)
        self.loss = library.loss(ignore_index=reversal.PAD, label_smoothing=settings.label_smoothing)
        self.optimizer = library.optimizer(self.model.parameters(), betas=settings.betas, eps=settings.eps)
        self.schedule = library.schedule(self.optimizer, settings)
        self.stream = torch.get_rng_state()
        self.start = self.state()
        self.losses: list[float] = []
        self.seconds = 0.0

    def state(self) -> dict[str, Tensor]:
        return {name: values.clone() for name, values in self.library.state(self.model).items()}

    def step(self, src: Tensor, tgt: Tensor) -> None:
        began = time.perf_counter()
        torch.set_rng_state(self.stream)
        logits = self.model(src, tgt[:, :-1])  # (B, T - 1, VOCABULARY)
        loss = self.loss(logits.flatten(0, 1), tgt[:, 1:].flatten())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.schedule.step()
        self.stream = torch.get_rng_state()
        self.losses.append(loss.item())
        self.seconds += time.perf_counter() - began

    def side(self, src: Tensor, tgt: Tensor) -> Side:
        moved = (self.state()[name] - values for name, values in self.start.items() if name.endswith(IN_PROJ_BIAS))
        key_bias = max((x.chunk(3)[1].abs().max().item() for x in moved), default=0.0)
        accuracy = reversal.exact_matches(self._decode(src, tgt.shape[1]), tgt)
        return Side(self.library.name, tuple(self.losses), accuracy, key_bias, self.seconds)

    @torch.no_grad()
    def _decode(self, src: Tensor, length: int) -> Tensor:
        """The most probable token, one after the other: (B, length)."""
        self.model.eval()
        tgt = torch.full((len(src), 1), reversal.START)
        while tgt.shape[1] < length:
            tgt = torch.cat([tgt, self.model(src, tgt)[:, -1:].argmax(-1)], dim=1)
        self.model.train()
        return tgt


def _without_key_biases(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """In the place of the biases of queries, keys and values, which are one tensor, those of queries and values."""
    biases = {name: state[name].chunk(3) for name in state if name.endswith(IN_PROJ_BIAS)}
    others = {name: values for name, values in state.items() if name not in biases}
    return others | {f"{name} {part}": b[i] for name, b in biases.items() for i, part in ((0, "query"), (2, "value"))}


def _largest_error(ours: dict[str, Tensor], builtin: dict[str, Tensor]) -> float:
    if ours.keys() != builtin.keys():
        return math.inf
    return max(relative_error(ours[name], builtin[name]) for name in builtin)
