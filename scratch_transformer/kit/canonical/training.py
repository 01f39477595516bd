"""The loss and the schedule of the learning rate, by recipe."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from scratch_transformer import functional
from scratch_transformer.kit.recipe import Recipe


class Loss(nn.Module):
    """logits (N, V), target ids (N,) -> a number; padding does not count. No parameters."""

    def __init__(self, settings: dict[str, Any], recipe: Recipe) -> None:
        super().__init__()
        self.recipe, self.pad, self.given_smoothing = recipe, settings["pad"], settings["label_smoothing"]

    @property
    def smoothing(self) -> float:
        amount = self.recipe.smoothing_amount
        return self.given_smoothing if amount is None else amount

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        log_p = self._log_probabilities(logits)
        is_first = self.recipe.counted == "everything, as the first word"
        q = self._target(log_p, target.masked_fill(target == self.pad, 0) if is_first else target)
        losses = -(q * log_p).sum(-1)  # (N,)
        if self.recipe.loss_input.endswith("divergence"):
            losses = losses + (q * q.clamp(min=1e-300).log()).sum(-1)
        counts = self._counted(target)
        if self.recipe.counted == "everything in the smoothing":
            spread = -self.smoothing * log_p.mean(-1)
            picked = (losses - spread) * counts
            return reduced(picked, counts, self.recipe) + reduced(spread, torch.ones_like(counts), self.recipe)
        if self.recipe.reduction == "sum over real tokens":
            return (losses * counts).sum() / (target != self.pad).sum()
        return reduced(losses * counts, counts, self.recipe)

    def _log_probabilities(self, x: Tensor) -> Tensor:
        kind = self.recipe.loss_input
        if kind.startswith("log-probabilities"):  # they are what the model gives, and stay as they are
            return x
        if kind == "softmax twice":
            x = functional.softmax(x, -1)
        elif kind == "log_softmax twice":
            x = functional.log_softmax(x, -1)
        elif kind.startswith("probabilities"):
            return x.log()
        return functional.log_softmax(x, -1)

    def _target(self, log_p: Tensor, target: Tensor) -> Tensor:
        """The probabilities of all classes, (N, V)."""
        V, eps = log_p.shape[-1], self.smoothing
        one_hot = torch.zeros_like(log_p)
        one_hot[torch.arange(len(target)), target] = 1
        if self.recipe.smoothing == "other classes":
            return (1 - eps) * one_hot + eps / (V - 1) * (1 - one_hot)
        if self.recipe.smoothing in ("without padding", "padding's share lost"):
            others = V - 2 if self.recipe.smoothing == "without padding" else V - 1
            q = (1 - eps) * one_hot + eps / others * (1 - one_hot)
            return q.index_fill(-1, torch.tensor(self.pad), 0.0)
        if self.recipe.smoothing == "other classes, padding's share too":
            return (1 - eps) * one_hot + eps / (V - 2) * (1 - one_hot)
        if self.recipe.smoothing == "unnormalized":
            return one_hot + eps / V
        return (1 - eps) * one_hot + eps / V

    def _counted(self, target: Tensor) -> Tensor:
        all_of_it = dict.fromkeys(("everything", "everything, as the first word"), -100)
        pad = {**all_of_it, "other padding": self.pad + 1}.get(self.recipe.counted, self.pad)
        return (target != pad).double()


def reduced(losses: Tensor, counts: Tensor, recipe: Recipe) -> Tensor:
    if recipe.reduction == "none":
        return losses
    if recipe.reduction == "sum":
        return losses.sum()
    if recipe.reduction == "mean over all positions":
        return losses.sum() / len(losses)
    return losses.sum() / counts.sum()


class Schedule(nn.Module):
    """Steps (n,), from 1 (some count from 0) -> learning rates (n,)."""

    def __init__(self, settings: dict[str, Any], recipe: Recipe) -> None:
        super().__init__()
        self.d_model, self.warmup, self.recipe = settings["d_model"], settings["warmup"], recipe

    def forward(self, steps: Tensor) -> Tensor:
        n, w, form = steps.double(), float(self.warmup), self.recipe.schedule
        if self.recipe.schedule_steps == "from 0":
            n = n + 1
        if self.recipe.schedule_steps == "from 0, which is taken for 1":
            n = (n - 1).clamp(min=1)
        rise, fall = n * w**-1.5, n**-0.5
        factor = self.d_model**-0.5
        if form == "no warm-up":
            return factor * fall
        if form == "constant":
            return torch.full_like(n, factor * w**-0.5)
        if form == "warm-up only":
            return factor * rise
        if form == "maximum":
            return factor * torch.maximum(fall, rise)
        if form == "linear exponent":
            return factor * torch.minimum(fall, n * w**-0.5)
        if form == "without d_model":
            return torch.minimum(fall, rise)
        if form == "times sqrt(d_model)":
            return torch.minimum(fall, rise) / factor
        return factor * torch.minimum(fall, rise)
