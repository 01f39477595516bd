"""The cross-entropy of an index, some rows at a time: nothing as large as the logits is kept but their gradient.

With p = softmax(x), ε the smoothing and C classes, ℓ = log Σ exp(x) - (1 - ε) x_target - ε mean(x), so that

    dℓ/dx = p - ε / C,  and at the target 1 - ε less
"""

from __future__ import annotations

import torch
from torch import Tensor

from scratch_transformer.by_hand.passes import LOG2_E, Kept, Passes

CACHED = 1 << 18
"""Elements that stay in a core's cache from one operation to the next."""


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
