"""The cross-entropy of an index, some rows at a time: nothing as large as the logits is kept but their gradient.

With p = softmax(x), ε the smoothing and C classes, ℓ = log Σ exp(x) - (1 - ε) x_target - ε mean(x), so that

    dℓ/dx = p - ε / C,  and at the target 1 - ε less

Of logits that are a product, x = y Wᵀ, the same rows' gradients go on into dy and dW at once: then not even the logits
are kept, nor their gradient. Source: Hsu et al. 2024 (Liger Kernel).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from scratch_transformer.by_hand.passes import LOG2_E, Kept, Passes

CACHED = 1 << 18
"""Elements that stay in a core's cache from one operation to the next."""
ROWS, TOGETHER, SHARED = 128, 1 << 22, 1 << 20
"""Rows that are multiplied with W at a time at least, elements of their logits, and of those that all cores' caches and
the next one hold."""


class Surprise(Passes):
    """Logits x (N, C), targets (N,), ε -> ℓ (N,)."""

    tensors, differentiable = 2, 1

    @staticmethod
    def forward(logits: Tensor, index: Tensor, smoothing: float) -> tuple[Tensor, Kept]:
        highest = logits.amax(-1, keepdim=True)
        target = pick(logits, index, 1) - highest.squeeze(1)
        totals, means = [], []
        for rows, top in zip(_pieces(logits), _pieces(highest, logits), strict=True):
            shifted = rows - top
            if smoothing > 0:
                means.append(shifted.mean(-1))
            totals.append(shifted.mul_(LOG2_E).exp2_().sum(-1))
        total = torch.cat(totals)
        losses = total.log()
        if smoothing > 0:
            losses.sub_(target.mul_(1 - smoothing)).sub_(torch.cat(means), alpha=smoothing)
        else:
            losses.sub_(target)
        return losses, (highest, total)

    @staticmethod
    def backward(grad: Tensor, kept: Kept, logits: Tensor, index: Tensor, smoothing: float) -> tuple[Tensor]:
        highest, total = kept
        share, grad = (grad / total).unsqueeze(1), grad.unsqueeze(1)
        of_logits = torch.empty_like(logits)
        parts = (_pieces(x, logits) for x in (logits, highest, share, grad, of_logits))
        for rows, top, factor, upstream, out in zip(*parts, strict=True):
            torch.sub(rows, top, out=out).mul_(LOG2_E).exp2_().mul_(factor)
            if smoothing > 0:
                out.sub_(upstream, alpha=smoothing / logits.shape[1])
        return (of_logits.scatter_add_(1, index.unsqueeze(1), grad * (smoothing - 1)),)


class SurpriseOfProducts(Passes):
    """y (N, d), W (C, d), targets (N,), factors (N,), ε, whether gradients are wanted -> Σ factor · ℓ."""

    tensors, differentiable = 4, 2

    @staticmethod
    def forward(
        y: Tensor, weight: Tensor, index: Tensor, factors: Tensor, smoothing: float, has_gradients: bool
    ) -> tuple[Tensor, Kept]:
        of_y = torch.empty_like(y) if has_gradients else y
        of_weight = torch.empty_like(weight) if has_gradients else weight
        count = max(ROWS, TOGETHER // len(weight)) if y.device.type == "cpu" else len(y)
        room = y.new_empty(min(count, len(y)), len(weight))
        losses = []
        parts = (x.split(count) for x in (y, y * LOG2_E, index, factors, of_y))
        for number, (rows, scaled, targets, shares, out) in enumerate(zip(*parts, strict=True)):
            logits = torch.mm(scaled, weight.T, out=room[: len(rows)])
            each = (x.split(max(1, SHARED // len(weight))) for x in (logits, targets, shares))
            losses += [_to_gradient(x, i, f, smoothing, has_gradients) for x, i, f in zip(*each, strict=True)]
            if has_gradients:
                torch.mm(logits, weight, out=out)
                of_weight.addmm_(logits.T, rows, beta=min(number, 1))  # what is in it at first does not count
        total = torch.cat(losses).mul_(factors).masked_fill_(factors == 0, 0).sum()
        return total, (of_y, of_weight) if has_gradients else ()

    @staticmethod
    def backward(grad: Tensor, kept: Kept, *args: Any) -> tuple[Tensor, Tensor]:
        of_y, of_weight = kept
        return of_y * grad, of_weight * grad


def _to_gradient(logits: Tensor, index: Tensor, factors: Tensor, smoothing: float, has_gradients: bool) -> Tensor:
    """ℓ of each row; logits, in units of ln 2, become factor · dℓ/dx."""
    highest = logits.amax(-1, keepdim=True)
    fall = (highest.squeeze(1) - pick(logits, index, 1)).mul_(1 - smoothing)
    if smoothing > 0:
        fall.add_(highest.squeeze(1) - logits.mean(-1), alpha=smoothing)
    total = logits.sub_(highest).exp2_().sum(-1)
    if has_gradients:
        logits.mul_((factors / total).unsqueeze(1))
        if smoothing > 0:
            logits.sub_(factors.unsqueeze(1), alpha=smoothing / logits.shape[1])
        logits.scatter_add_(1, index.unsqueeze(1), factors.unsqueeze(1) * (smoothing - 1))
    return total.log_().add_(fall, alpha=1 / LOG2_E)


def _pieces(x: Tensor, logits: Tensor | None = None) -> tuple[Tensor, ...]:
    """Some rows at a time on a CPU; all on other devices, where to begin an operation takes long."""
    rows, classes = (x if logits is None else logits).shape
    return x.split(max(1, CACHED // classes) if x.device.type == "cpu" else rows)


def pick(values: Tensor, index: Tensor, class_dim: int) -> Tensor:
    """values[..., index, ...] along class_dim, for every entry of index."""
    try:
        return values.gather(class_dim, index.unsqueeze(class_dim)).squeeze(class_dim)
    except RuntimeError:
        raise IndexError(
            f"cross_entropy: target must be in [0, {values.shape[class_dim]}), the number of classes, or ignore_index, "
            f"but ranges from {int(index.min())} to {int(index.max())}: target out of bounds"
        ) from None
