"""Layer normalization and root-mean-square normalization over the last dimensions.

With x̂ what is normalized, y = x̂ γ + β, and g the gradient of y, u = g γ that of x̂, over n features:

    dx = (u - mean(u) - x̂ mean(u x̂)) / √(σ² + ε)     layer normalization
    dx = (u - x̂ mean(u x̂)) / √(mean x² + ε)          root-mean-square normalization
    dγ = Σ g x̂,  dβ = Σ g                            over all rows

The two means of u are products of a matrix and γ. Few passes over memory: a row is multiplied by 1 / √… rather than
divided, its sum of squares is a norm, and a product and a sum are one pass.
"""

from __future__ import annotations

import torch
from torch import Tensor

from scratch_transformer.by_hand.passes import Kept, Passes

# Features beyond which a norm, summed up number by number, is not exact enough: sums are taken in parts.
LONG = 1 << 13


class LayerNorm(Passes):
    """x (*, …), γ and β (…) or None, how many dimensions … are, ε."""

    tensors = differentiable = 3

    @staticmethod
    def forward(x: Tensor, weight: Tensor | None, bias: Tensor | None, count: int, eps: float) -> tuple[Tensor, Kept]:
        mean = x.mean(tuple(range(-count, 0)), keepdim=True)
        y = x - mean
        factor = _factor(y, count, eps)
        y.mul_(factor)
        if weight is not None and bias is not None:
            return torch.addcmul(bias, y, weight, out=y), (mean, factor)
        y = y if weight is None else y.mul_(weight)
        return y if bias is None else y.add_(bias), (mean, factor)

    @staticmethod
    def backward(
        grad: Tensor, kept: Kept, x: Tensor, weight: Tensor | None, bias: Tensor | None, count: int, eps: float
    ) -> tuple[Tensor | None, ...]:
        mean, factor = kept
        of_x, of_weight = _gradients(grad, (x - mean).mul_(factor), weight, factor, count, has_mean=False)
        return of_x, of_weight, None if bias is None else grad.reshape(-1, bias.numel()).sum(0).view(bias.shape)


class RMSNorm(Passes):
    """x (*, …), γ (…) or None, how many dimensions … are, ε."""

    tensors = differentiable = 2

    @staticmethod
    def forward(x: Tensor, weight: Tensor | None, count: int, eps: float) -> tuple[Tensor, Kept]:
        factor = _factor(x, count, eps)
        y = x * factor
        return y if weight is None else y.mul_(weight), (factor,)

    @staticmethod
    def backward(
        grad: Tensor, kept: Kept, x: Tensor, weight: Tensor | None, count: int, eps: float
    ) -> tuple[Tensor | None, ...]:
        (factor,) = kept
        of_x, of_weight = _gradients(grad, x * factor, weight, factor, count, has_mean=True)
        # channels last, or however else x lies in memory, as torch's gradient does
        return of_x if x.is_contiguous() else torch.empty_like(x).copy_(of_x), of_weight


def _factor(x: Tensor, count: int, eps: float) -> Tensor:
    """1 / √(mean x² + ε) of each row."""
    dims, n = tuple(range(-count, 0)), x.shape[-count:].numel()
    if n > LONG:
        squares = x.square().sum(dims, keepdim=True)
    else:
        squares = torch.linalg.vector_norm(x, dim=dims, keepdim=True).square_()
    return squares.div_(n).add_(eps).rsqrt_()


def _gradients(
    grad: Tensor, normalized: Tensor, weight: Tensor | None, factor: Tensor, count: int, has_mean: bool
) -> tuple[Tensor, Tensor | None]:
    """dx and dγ; has_mean: whether x̂ may have a mean."""
    n = grad.shape[-count:].numel()
    rows, normalized = grad.reshape(-1, n), normalized.reshape(-1, n)
    products = rows * normalized
    gain = rows.new_ones(n) if weight is None else weight.reshape(n)
    shares = gain / n
    mean, of_weight = products.mv(shares).unsqueeze(1), None if weight is None else products.sum(0).view(weight.shape)
    if has_mean:
        of_x = torch.mul(rows, gain, out=products)
    else:
        of_x = torch.addcmul(rows.mv(shares).neg_().unsqueeze(1), rows, gain, out=products)
    of_x.addcmul_(normalized, mean, value=-1).mul_(factor.reshape(-1, 1))
    return of_x.view(grad.shape), of_weight
