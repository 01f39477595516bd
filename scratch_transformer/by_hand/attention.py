"""Attention with all its weights in memory.

With E = exp(S - highest of the row), S = Q Kᵀ · scale + mask, n = rowsum(E), A = E / n the weights, F what dropout
multiplies them with, O = (A ⊙ F) V, and G the gradient of O:

    G' = G / n,  r = rowsum(G' ⊙ O)
    dV = (E ⊙ F)ᵀ G'
    dS = E ⊙ (G' Vᵀ ⊙ F - r)          n r is the sum of a row of A ⊙ dA, too, but of fewer numbers
    dQ = dS K · scale,  dK = dSᵀ Q · scale

So E is never divided: rows of O and G are, which are shorter. Source: Dao et al. 2022, appendix B.2.
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
        shape = query.shape[:-1]
        key, value, scaled = (
            _matrices(key),
            _matrices(value),
            torch.empty(query.shape, dtype=query.dtype, device=query.device),
        )
        scaled = _matrices(torch.mul(query, scale * _unit(mask), out=scaled))
        powers = scaled.bmm(key.transpose(1, 2))
        if mask is not None:
            _block(powers.view(*shape, -1), mask)
        elif is_causal:
            torch.minimum(powers, _limits(torch.ones_like(powers[0], dtype=torch.bool).tril_(), powers), out=powers)
        highest = powers.amax(-1, keepdim=True)
        if mask is not None:  # in a row of -inf alone, all powers are zero; in any other the highest score gives 1
            highest.clamp_(min=torch.finfo(powers.dtype).min)
        powers.sub_(highest)
        powers.exp_() if _unit(mask) == 1 else powers.exp2_()
        total = powers.sum(-1, keepdim=True)
        if mask is not None:
            total.clamp_(min=1)
        attended = _dropped(powers, factors).bmm(value).div_(total)
        return attended.view(*shape, -1), (scaled, key, value, powers, total, attended)

    @staticmethod
    def backward(
        grad: Tensor, kept: Kept, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None,
        factors: Tensor | None, scale: float, is_causal: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        scaled, keys, values, powers, total, attended = kept
        share = torch.empty_like(attended)
        torch.div(grad, total.view(*grad.shape[:-1], 1), out=share.view(grad.shape))
        of_value = _dropped(powers, factors).transpose(1, 2).bmm(share)
        of_scores = _dropped(share.bmm(values.transpose(1, 2)), factors)
        of_scores.sub_((share * attended).sum(-1, keepdim=True)).mul_(powers)
        of_query = of_scores.bmm(keys).mul_(scale)
        of_key = of_scores.transpose(1, 2).bmm(scaled).div_(_unit(mask))
        return of_query.view(query.shape), of_key.view(key.shape), of_value.view(value.shape)


def _matrices(x: Tensor) -> Tensor:
    """(..., T, D) -> (·, T, D), one after the other in memory."""
    return x.reshape(-1, *x.shape[-2:]).contiguous()


def _block(scores: Tensor, mask: Tensor) -> None:
    """Apply a mask to scores (..., T, S) in place."""
    if mask.dtype != torch.bool:
        scores.add_(mask)
    elif 2 * mask.numel() > scores.numel():
        scores.masked_fill_(~mask, float("-inf"))
    else:
        torch.minimum(scores, _limits(mask, scores), out=scores)


def _limits(mask: Tensor, scores: Tensor) -> Tensor:
    """∞ where a mask allows, -∞ where not: a minimum takes a CPU a tenth of the time of filling by booleans."""
    return scores.new_full(mask.shape, float("-inf")).masked_fill_(mask, float("inf"))


def _dropped(weights: Tensor, factors: Tensor | None) -> Tensor:
    return weights if factors is None else weights * factors.view(weights.shape)


def _unit(mask: Tensor | None) -> float:
    """Powers are of 2, but of e where numbers are added as a mask: the lowest there are must stay finite."""
    return 1.0 if mask is not None and mask.is_floating_point() else LOG2_E
