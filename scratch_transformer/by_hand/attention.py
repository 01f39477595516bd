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

    mask: as everywhere, broadcasting to (..., T, S), or None. factors: F, (..., T, S), or None. is_causal: query t sees
    the keys 0 … t; without a mask.
    """

    tensors, differentiable = 5, 3

    @staticmethod
    def forward(
        query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, factors: Tensor | None, scale: float,
        is_causal: bool,
    ) -> tuple[Tensor, Kept]:  # fmt: skip
        key, value = _matrices(key), _matrices(value)
        scaled = torch.empty(query.shape, dtype=query.dtype, device=query.device)
        torch.mul(query, scale * _unit(mask), out=scaled)
        scaled = _matrices(scaled)
        weights = scaled.bmm(key.transpose(1, 2))
        if mask is not None:
            _block(weights.view(*query.shape[:-1], -1), mask)
        elif is_causal:  # the zeros are for what may be no number: it is not seen either
            weights.tril_().add_(weights.new_full(weights.shape[1:], float("-inf")).triu_(1))
        highest = weights.amax(-1, keepdim=True)
        if mask is not None:  # in a row of -inf alone, all powers are zero; in any other the highest score gives 1
            highest.clamp_(min=torch.finfo(weights.dtype).min)
        weights.sub_(highest)
        weights.exp_() if _unit(mask) == 1 else weights.exp2_()
        total = weights.sum(-1, keepdim=True)
        weights.div_(total if mask is None else total.clamp_(min=1))
        attended = _dropped(weights, factors).bmm(value)
        return attended.view(*query.shape[:-1], -1), (scaled, key, value, weights)

    @staticmethod
    def backward(
        grad: Tensor, kept: Kept, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None,
        factors: Tensor | None, scale: float, is_causal: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        scaled, keys, values, weights = kept
        grad = _matrices(grad)
        of_value = _dropped(weights, factors).transpose(1, 2).bmm(grad)
        of_scores = _dropped(grad.bmm(values.transpose(1, 2)), factors).mul_(weights)
        of_scores.addcmul_(weights, of_scores.sum(-1, keepdim=True), value=-1)
        of_query = of_scores.bmm(keys).mul_(scale)
        of_key = of_scores.transpose(1, 2).bmm(scaled).div_(_unit(mask))
        return of_query.view(query.shape), of_key.view(key.shape), of_value.view(value.shape)


def _matrices(x: Tensor) -> Tensor:
    """(..., T, D) -> (·, T, D), one after the other in memory."""
    return x.reshape(-1, *x.shape[-2:]).contiguous()


def _block(scores: Tensor, mask: Tensor) -> None:
    """Apply a mask to scores (..., T, S) in place."""
    if mask.dtype == torch.bool:
        scores.masked_fill_(~mask, float("-inf"))
    else:
        scores.add_(mask)


def _dropped(weights: Tensor, factors: Tensor | None) -> Tensor:
    return weights if factors is None else weights * factors.view(weights.shape)


def _unit(mask: Tensor | None) -> float:
    """Powers are of 2, but of e where numbers are added as a mask: the lowest there are must stay finite."""
    return 1.0 if mask is not None and mask.is_floating_point() else LOG2_E
