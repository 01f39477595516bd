"""Layer normalization and root-mean-square normalization over the last dimensions.

With x̂ what is normalized, y = x̂ γ + β, and g the gradient of y, u = g γ that of x̂, over n features:

    dx = (u - mean(u) - x̂ mean(u x̂)) / √(σ² + ε)     layer normalization
    dx = (u - x̂ mean(u x̂)) / √(mean x² + ε)          root-mean-square normalization
    dγ = Σ g x̂,  dβ = Σ g                            over all rows

The two means of u are products of a matrix and γ.
"""

from __future__ import annotations

from torch import Tensor

from scratch_transformer.by_hand.passes import Kept, Passes


class LayerNorm(Passes):
    """x (*, …), γ and β (…) or None, how many dimensions … are, ε."""

    tensors = differentiable = 3

    @staticmethod
    def forward(x: Tensor, weight: Tensor | None, bias: Tensor | None, count: int, eps: float) -> tuple[Tensor, Kept]:
        dims = tuple(range(-count, 0))
        mean = x.mean(dims, keepdim=True)
        y = x - mean
        root = y.square().mean(dims, keepdim=True).add_(eps).sqrt_()
        y.div_(root)
        y = y if weight is None else y.mul_(weight)
        return y if bias is None else y.add_(bias), (mean, root)

    @staticmethod
    def backward(
        grad: Tensor, kept: Kept, x: Tensor, weight: Tensor | None, bias: Tensor | None, count: int, eps: float
    ) -> tuple[Tensor | None, ...]:
        mean, root = kept
        of_x, of_weight = _gradients(grad, (x - mean).div_(root), weight, root, count, has_mean=False)
        return of_x, of_weight, None if bias is None else grad.reshape(-1, bias.numel()).sum(0).view(bias.shape)


class RMSNorm(Passes):
    """x (*, …), γ (…) or None, how many dimensions … are, ε."""

    tensors = differentiable = 2

    @staticmethod
    def forward(x: Tensor, weight: Tensor | None, count: int, eps: float) -> tuple[Tensor, Kept]:
        root = x.square().mean(tuple(range(-count, 0)), keepdim=True).add_(eps).sqrt_()
        y = x / root
        return y if weight is None else y.mul_(weight), (root,)

    @staticmethod
    def backward(
        grad: Tensor, kept: Kept, x: Tensor, weight: Tensor | None, count: int, eps: float
    ) -> tuple[Tensor | None, ...]:
        (root,) = kept
        return _gradients(grad, x / root, weight, root, count, has_mean=True)


def _gradients(
    grad: Tensor, normalized: Tensor, weight: Tensor | None, root: Tensor, count: int, has_mean: bool
) -> tuple[Tensor, Tensor | None]:
    """dx and dγ; has_mean: whether x̂ may have a mean."""
    n = grad.shape[-count:].numel()
    rows, normalized = grad.reshape(-1, n), normalized.reshape(-1, n)
    products = rows * normalized
    gain = None if weight is None else weight.reshape(n)
    of_x = rows.clone() if gain is None else rows * gain
    shares = rows.new_full((n,), 1 / n) if gain is None else gain / n
    if not has_mean:
        of_x.sub_(rows.mv(shares).unsqueeze(1))
    of_x.addcmul_(normalized, products.mv(shares).unsqueeze(1), value=-1).div_(root.reshape(-1, 1))
    return of_x.view(grad.shape), None if weight is None else products.sum(0).view(weight.shape)
