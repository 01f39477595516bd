"""Steps of AdamW, which weights shrink, the cosine schedule, clipped gradients, and the probabilities of sampling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from scratch_transformer import functional
from scratch_transformer.kit.canonical.base import OfSettings
from scratch_transformer.kit.recipe import Recipe

Settings = dict[str, Any]


class AdamW(OfSettings):
    """weights (n,), gradients (steps, n) -> the weights after every step, (steps, n)."""

    def forward(self, weights: Tensor, gradients: Tensor) -> Tensor:
        settings, form = self.settings, self.recipe.decay
        lr, decay = settings["lr"], settings["weight_decay"] * (form != "none")
        shrink = decay if self.recipe.decay_rate == "alone" else lr * decay
        w, m, v, found = weights.clone(), torch.zeros_like(weights), torch.zeros_like(weights), []
        for t, g in enumerate(gradients, 1):
            g = g + decay * w if form in ("in the gradient", "in both") else g
            if form in ("before the step", "in both"):
                w = w - shrink * w
            m, v = self._moments(m, v, g)
            w = w - lr * self._direction(m, v, t)
            w = w - shrink * w if form == "after the step" else w
            found.append(w)
        return torch.stack(found)

    def _moments(self, m: Tensor, v: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
        beta1, beta2, form = self.settings["beta1"], self.settings["beta2"], self.recipe.adam_moments
        if form == "betas exchanged":
            beta1, beta2 = beta2, beta1
        if form == "not kept":
            m, v = torch.zeros_like(m), torch.zeros_like(v)
        own = (1.0, 1.0) if form == "gradients not weighted" else (1 - beta1, 1 - beta2)
        return beta1 * m + own[0] * g, beta2 * v + own[1] * (g.abs() if form == "not squared" else g * g)

    def _direction(self, m: Tensor, v: Tensor, t: int) -> Tensor:
        """m̂ / (√v̂ + ε)."""
        eps, form, corrected = self.settings["eps"], self.recipe.adam_eps, self.recipe.adam_correction
        t = {"of step 1": 1, "a step ahead": t + 1}.get(corrected, t)
        first = 1.0 if corrected in ("none", "of the second") else 1 - self.settings["beta1"] ** t
        second = 1.0 if corrected in ("none", "of the first") else 1 - self.settings["beta2"] ** t
        if form == "uncorrected":
            return m * (math.sqrt(second) / first) / (v.sqrt() + eps)
        if form == "inside":
            return m / first / (v / second + eps).sqrt()
        return m / first / ((v / second).sqrt() + eps)


def to_optimize() -> nn.Module:
    """A small model with all that a rule of weight decay may tell apart."""
    block = nn.ModuleDict(
        {"norm1": nn.LayerNorm(4), "attn": nn.Linear(4, 4), "norm2": nn.RMSNorm(4), "mlp": nn.Linear(4, 4, bias=False)}
    )
    model = {"wte": nn.Embedding(5, 4), "h": nn.ModuleList([block]), "ln_f": nn.LayerNorm(4)}
    return nn.ModuleDict(model).double()


class DecayGroups(OfSettings):
    """A weight decay -> for every parameter of `to_optimize` 1 if it shrinks, 0 if not, -1 if no optimizer has it.

    Then 1 if there are groups with a weight decay each, 0 if there is one of all.
    """

    def forward(self, decay: Tensor) -> Tensor:
        names = dict(to_optimize().named_parameters())
        several = float(self.recipe.decayed != "everything, in one group")
        return torch.tensor([*(self._shrinks(name, p) for name, p in names.items()), several], dtype=torch.float64)

    def _shrinks(self, name: str, parameter: nn.Parameter) -> float:
        form, is_matrix = self.recipe.decayed.partition(",")[0], parameter.dim() > 1
        if "wte" in name and form != "all but matrices":
            return float(self.recipe.decays_embeddings)
        is_of_a_norm, is_bias = "norm" in name or "ln" in name, name.endswith("bias")
        return {
            "everything": 1.0,
            "all but matrices": float(not is_matrix),
            "all but biases": float(not is_bias),
            "all but norms": float(not is_of_a_norm),
            "matrices alone": 1.0 if is_matrix else -1.0,
        }.get(form, float(is_matrix))


class CosineSchedule(OfSettings):
    """Steps (n,), from 0 -> learning rates (n,): up to max_lr in `warmup` steps, down to min_lr at step `total`.

    Along half a cosine, or in a straight line.
    """

    def forward(self, steps: Tensor) -> Tensor:
        high, low = self.settings["max_lr"], self.settings["min_lr"]
        n, warmup, total, form = steps.double(), self.settings["warmup"], self.settings["total"], self.recipe.cosine
        n = n + 1 if self.recipe.cosine_steps == "from 1" else n
        n = n % total if self.recipe.cosine_end == "again" else n
        rise = {"from 0": n / warmup, "from 1": (n + 1) / warmup, "from 1, to 1": (n + 1) / (warmup + 1),
                "none": torch.full_like(n, math.inf)}[self.recipe.cosine_warmup]  # fmt: skip
        begin, length = {
            "over all steps": (0, total),
            "as long as all steps": (warmup, total),
            "as long as all steps, not cut": (warmup, total),
        }.get(form, (warmup, total - warmup))
        begin, length = {
            "to the last step": (warmup, total - 1 - warmup),
            "a step early": (warmup - 1, total - warmup),
            "a step late": (warmup + 1, total - warmup),
        }.get(form, (begin, length))
        progress = (n - begin) / length
        if form == "as long as all steps, not cut":
            progress = progress.clamp(max=1.0)
        is_straight = self.recipe.cosine_falls == "in a straight line"
        wave = 1 - progress if is_straight else (1 + torch.cos(math.pi * progress)) / 2
        if form == "not halved":
            wave = 2 * wave
        elif form == "upside down":
            wave = 1 - wave
        elif form == "half the angle":
            wave = torch.cos(math.pi / 2 * progress)
        is_whole = form == "without the minimum" or self.recipe.cosine_least == "on top"
        fall = high * wave if is_whole else (high - low) * wave
        fall = fall if form in ("without the minimum", "minimum not added") else low + fall
        if form not in ("goes on after the end", "as long as all steps, not cut"):
            fall = torch.where(n > total, low, fall)
            fall = torch.where(n >= begin + length, low, fall) if form in ("to the last step", "a step early") else fall
        rising = low + (high - low) * rise if self.recipe.cosine_rise == "from the least" else high * rise
        return torch.where(n < warmup, rising, fall) if self.recipe.cosine_warmup != "none" else fall


class GradientClipping(nn.Module):
    """gradients (any number of tensors) -> all of them in one row, of the length max_norm at most."""

    def __init__(self, settings: Settings, recipe: Recipe) -> None:
        super().__init__()
        self.max_norm, self.recipe = settings["max_norm"], recipe

    def forward(self, gradients: Sequence[Tensor]) -> Tensor:
        form = self.recipe.clipping
        if form == "every number":
            return torch.cat([g.flatten().clamp(-self.max_norm, self.max_norm) for g in gradients])
        if form == "each alone":
            return torch.cat([g.flatten() * self._factor(g.square().sum().sqrt()) for g in gradients])
        squares = torch.stack([g.square().sum() for g in gradients])
        if form == "each alone, and short ones stretched" and squares.sum().sqrt() > self.max_norm:
            return torch.cat([g.flatten() * (self.max_norm / (g.norm() + self.recipe.clip_eps)) for g in gradients])
        norm = {"not rooted": squares.sum(), "sum of lengths": squares.sqrt().sum()}.get(form, squares.sum().sqrt())
        return torch.cat([g.flatten() for g in gradients]) * self._factor(norm)

    def _factor(self, norm: Tensor) -> Tensor:
        factor = self.max_norm / (norm + self.recipe.clip_eps)
        return factor if self.recipe.clipping == "always" else factor.clamp(max=1.0)


SAID = (1, 4, 6, 4)
"""The ids of the text so far, for which there may be a penalty; the first one begins it."""


class Sampling(OfSettings):
    """logits (V,) -> with which probability each id is drawn, (V,)."""

    def forward(self, logits: Tensor) -> Tensor:
        T, k, p = self.settings["temperature"], self.settings["top_k"], self.settings["top_p"]
        if self.recipe.temperature == "multiplies":
            T = 1 / T
        elif self.recipe.temperature == "ignored":
            T = 1.0
        late = self.recipe.temperature == "after top-p"
        logits = self._penalized(logits)
        logits = logits if late else logits / T
        whole = functional.softmax(logits, -1)
        if k and self.recipe.top_k != "not used":
            kept = k + {"one fewer": -1, "one more": 1}.get(self.recipe.top_k, 0)
            best = logits.topk(kept, largest=self.recipe.top_k != "the least likely").indices
            others = torch.ones_like(logits, dtype=torch.bool).index_fill(-1, best, False)
            logits = self._without(logits, others, "0, by top-k")
        if p < 1 and self.recipe.top_p != "not used":
            counted = whole if self.recipe.nucleus == "of all ids" else functional.softmax(logits, -1)
            logits = self._without(logits, self._tail(counted, p), "0, by top-p")
            logits = logits * T if self.recipe.temperature == "for top-p alone" else logits
        return functional.softmax(logits / T if late else logits, -1)

    def _penalized(self, logits: Tensor) -> Tensor:
        """What has been said is less likely: x / penalty, or x · penalty where that is less."""
        form, penalty = self.recipe.penalty, self.settings["penalty"]
        if form == "of new words":
            return logits
        times = torch.bincount(torch.tensor(SAID), minlength=len(logits))
        factor = penalty ** (times if form == "each time" else times.clamp(max=1))
        down, up = logits / factor, logits * factor
        if form in ("divides", "multiplies"):
            return down if form == "divides" else up
        return torch.maximum(down, up) if form == "upwards" else torch.minimum(down, up)

    def _tail(self, probabilities: Tensor, p: float) -> Tensor:
        """What is not among the likeliest ids that together reach p."""
        order = probabilities.argsort(descending=self.recipe.top_p != "the least likely")
        sums = probabilities[order].cumsum(-1)
        before = sums if self.recipe.top_p == "without the one that reaches p" else sums - probabilities[order]
        tail = torch.zeros_like(probabilities, dtype=torch.bool)
        removed = before > p if self.recipe.top_p != "one more" else before - probabilities[order].roll(1) > p
        removed[0] = False
        tail[order] = removed
        return removed if self.recipe.top_p == "in the sorted order" else tail

    def _without(self, logits: Tensor, removed: Tensor, form: str) -> Tensor:
        return logits.masked_fill(removed, 0.0 if self.recipe.removed in ("0", form) else -math.inf)
