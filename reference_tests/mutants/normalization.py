"""LN1 … LN7: mistakes in layer normalization."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import Parameter

from reference_tests.mutants.mutant import Mutant, Patch, after_init, around
from scratch_transformer import checks, functional, nn


def dividing_by(deviation: Callable[..., Tensor], token_axis: bool = False) -> Patch:
    """functional.layer_norm, dividing x - μ by `deviation(x, dims, eps)`, the correct one being √(σ² + ε)."""

    def layer_norm(
        x: Tensor,
        normalized_shape: Sequence[int],
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        eps: float = 1e-5,
    ) -> Tensor:
        checks.check_normalized("layer_norm", x, normalized_shape, weight=weight, bias=bias)
        dims = range(-len(normalized_shape), 0)
        if token_axis and x.dim() > len(dims):
            dims = range(dims.start - 1, -1)
        y = (x - x.mean(tuple(dims), keepdim=True)) / deviation(x, tuple(dims), eps)
        y = y if weight is None else y * weight
        return y if bias is None else y + bias

    return Patch(functional, "layer_norm", layer_norm)


def biased(x: Tensor, dims: tuple[int, ...], eps: float) -> Tensor:
    """What is right."""
    return (x.var(dims, correction=0, keepdim=True) + eps).sqrt()


def unbiased(x: Tensor, dims: tuple[int, ...], eps: float) -> Tensor:
    return (x.var(dims, correction=1, keepdim=True) + eps).sqrt()


def eps_outside(x: Tensor, dims: tuple[int, ...], eps: float) -> Tensor:
    return x.var(dims, correction=0, keepdim=True).sqrt() + eps


def as_widely_taught(x: Tensor, dims: tuple[int, ...], eps: float) -> Tensor:
    return x.var(dims, correction=1, keepdim=True).sqrt() + eps


def from_squares(x: Tensor, dims: tuple[int, ...], eps: float) -> Tensor:
    return (x.square().mean(dims, keepdim=True) - x.mean(dims, keepdim=True).square() + eps).sqrt()


def scalar_parameters(norm: nn.LayerNorm) -> None:
    if norm.weight is not None:
        norm.weight = Parameter(torch.ones(1))
    if norm.bias is not None:
        norm.bias = Parameter(torch.zeros(1))


def with_scalar_parameters(original: Callable[..., Tensor], norm: nn.LayerNorm, x: Tensor) -> Tensor:
    y = functional.layer_norm(x, norm.normalized_shape, eps=norm.eps)
    y = y if norm.weight is None else y * norm.weight
    return y if norm.bias is None else y + norm.bias


def without_bias(norm: nn.LayerNorm) -> None:
    norm.bias = None


def with_eps(eps: float) -> Patch:
    return after_init(nn.LayerNorm, lambda norm: setattr(norm, "eps", eps))


NORMALIZATION = (
    Mutant(
        "LN1",
        "unbiased variance",
        "The variance divides by n - 1 (torch.std's default) instead of n.",
        "LayerNorm",
        (dividing_by(unbiased),),
        caught_by=("definition", "has unit variance"),
    ),
    Mutant(
        "LN2",
        "eps outside the root",
        "Divides by σ + ε instead of √(σ² + ε).",
        "LayerNorm",
        (dividing_by(eps_outside),),
        caught_by=("definition", "has unit variance", "scales with eps"),
    ),
    Mutant(
        "LN1+2",
        "unbiased variance, eps outside the root",
        "x.std() + ε, both mistakes at once: they usually come together.",
        "LayerNorm",
        (dividing_by(as_widely_taught),),
        caught_by=("definition", "has unit variance", "scales with eps"),
    ),
    Mutant(
        "LN3-1e-6",
        "another eps",
        "ε is always 1e-6, instead of the argument, 1e-5 by default.",
        "LayerNorm",
        (with_eps(1e-6),),
        caught_by=("definition", "has unit variance", "scales with eps"),
    ),
    Mutant(
        "LN3-1e-12",
        "another eps",
        "ε is always 1e-12, instead of the argument, 1e-5 by default.",
        "LayerNorm",
        (with_eps(1e-12),),
        caught_by=("definition", "has unit variance"),
    ),
    Mutant(
        "LN4",
        "scalar weight and bias",
        "One γ and one β for all features, instead of one for each.",
        "LayerNorm",
        (after_init(nn.LayerNorm, scalar_parameters), around(nn.LayerNorm, "forward", with_scalar_parameters)),
        caught_by=("state", "definition"),
    ),
    Mutant(
        "LN5",
        "variance as a difference of squares",
        "mean x² - (mean x)² cancels where the mean is far from zero, instead of mean (x - mean x)².",
        "LayerNorm",
        (dividing_by(from_squares),),
        caught_by=("precision",),
        dtype=torch.float32,
    ),
    Mutant(
        "LN6",
        "no bias",
        "There is no β.",
        "LayerNorm",
        (after_init(nn.LayerNorm, without_bias),),
        caught_by=("state", "definition"),
    ),
    Mutant(
        "LN7",
        "wrong axis",
        "Mean and variance go over the tokens of a feature, instead of the features of a token.",
        "LayerNorm",
        (dividing_by(biased, token_axis=True),),
        caught_by=("definition", "treats tokens alone", "ignores a shift"),
    ),
)
