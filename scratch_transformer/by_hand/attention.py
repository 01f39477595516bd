"""Attention with all its weights in memory.

With A = softmax(S), S = Q Kᵀ · scale + mask, P = A ⊙ F what dropout leaves, O = P V, and G the gradient of O:

    dV = Pᵀ G
    dA = G Vᵀ ⊙ F
    dS = A ⊙ dA - A rowsum(A ⊙ dA)
    dQ = dS K · scale,  dK = dSᵀ Q · scale
"""

from __future__ import annotations

import torch
from torch import Tensor

from scratch_transformer.by_hand.passes import LOG2_E, Kept, Passes


class Attention(Passes):
    """Q (..., T, D), K (..., S, D), V (..., S, Dv) of the same leading dimensions -> O (..., T, Dv).

    mask: as everywhere, broadcasting to (..., T, S), or None. factors: F, (..., T, S), or None.
    """

    tensors, differentiable = 5, 3

    @staticmethod
    def forward(
        query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, factors: Tensor | None, scale: float
    ) -> tuple[Tensor, Kept]:
        key, value = key.contiguous(), value.contiguous()
        scaled = torch.empty(query.shape, dtype=query.dtype, device=query.device)
        torch.mul(query, scale * _unit(mask), out=scaled)
        weights = scaled @ key.transpose(-2, -1)
        if mask is not None and mask.dtype == torch.bool:
            weights.masked_fill_(~mask, float("-inf"))
        elif mask is not None:
            weights.add_(mask)
        # in a row of -inf alone, all powers are zero; in any other the highest score gives 1
        highest = weights.amax(-1, keepdim=True).clamp_(min=torch.finfo(weights.dtype).min)
        weights.sub_(highest)
        weights.exp_() if _unit(mask) == 1 else weights.exp2_()
        weights.div_(weights.sum(-1, keepdim=True).clamp_(min=1))
        return (weights if factors is None else weights * factors) @ value, (scaled, key, value, weights)

    @staticmethod
    def backward(
        grad: Tensor, kept: Kept, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None,
        factors: Tensor | None, scale: float,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        scaled, key, value, weights = kept
        grad = grad.contiguous()
        of_value = (weights if factors is None else weights * factors).transpose(-2, -1) @ grad
        of_scores = grad @ value.transpose(-2, -1)
        of_scores = (of_scores if factors is None else of_scores.mul_(factors)).mul_(weights)
        of_scores.addcmul_(weights, of_scores.sum(-1, keepdim=True), value=-1)
        of_key = (of_scores.transpose(-2, -1) @ scaled).div_(_unit(mask))
        return (of_scores @ key).mul_(scale), of_key, of_value


def _unit(mask: Tensor | None) -> float:
    """Powers are of 2, but of e where numbers are added as a mask: the lowest there are must stay finite."""
    return 1.0 if mask is not None and mask.is_floating_point() else LOG2_E
