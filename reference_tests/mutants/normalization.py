"""LN1 … LN7: mistakes in layer normalization."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from reference_tests.mutants.mutant import Mutant, Patch, after_init, around, variant
from scratch_transformer import checks, functional, nn
from scratch_transformer.kit.canonical.normalization import Norm
from scratch_transformer.kit.recipe import RIGHT


def normalizing(changes: Mapping[str, Any]) -> tuple[Patch, ...]:
    """functional.layer_norm as the kit computes it by recipe. changes: of the right recipe."""
    recipe = RIGHT.with_({"variance": "step by step", **changes})  # what is right goes through the same code

    def layer_norm(
        x: Tensor,
        normalized_shape: Sequence[int],
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        eps: float = 1e-5,
    ) -> Tensor:
        checks.check_normalized("layer_norm", x, normalized_shape, weight=weight, bias=bias)
        flat = x.flatten(-len(normalized_shape))
        has_tokens = flat.dim() > 1
        norm = Norm(flat.shape[-1], eps, recipe if has_tokens else replace(recipe, norm_dims="features"))
        y = norm.to(x)(flat).reshape(x.shape)
        y = y if weight is None else y * weight
        return y if bias is None else y + bias

    return (Patch(functional, "layer_norm", layer_norm),)


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
        "The variance divides by n - 1 (torch.std's default) instead of n.",
        "LayerNorm",
        normalizing(variant("LN1")),
        caught_by=("definition", "has unit variance"),
    ),
    Mutant(
        "LN2",
        "Divides by σ + ε instead of √(σ² + ε).",
        "LayerNorm",
        normalizing(variant("LN2")),
        caught_by=("definition", "has unit variance", "scales with eps"),
    ),
    Mutant(
        "LN1+2",
        "x.std() + ε, both mistakes at once: they usually come together.",
        "LayerNorm",
        normalizing({**variant("LN1"), **variant("LN2")}),
        caught_by=("definition", "has unit variance", "scales with eps"),
    ),
    Mutant(
        "LN3-1e-6",
        "ε is always 1e-6, instead of the argument, 1e-5 by default.",
        "LayerNorm",
        (with_eps(1e-6),),
        caught_by=("definition", "has unit variance", "scales with eps"),
    ),
    Mutant(
        "LN3-1e-12",
        "ε is always 1e-12, instead of the argument, 1e-5 by default.",
        "LayerNorm",
        (with_eps(1e-12),),
        caught_by=("definition", "has unit variance"),
    ),
    Mutant(
        "LN4",
        "One γ and one β for all features, instead of one for each.",
        "LayerNorm",
        (after_init(nn.LayerNorm, scalar_parameters), around(nn.LayerNorm, "forward", with_scalar_parameters)),
        caught_by=("state", "definition"),
    ),
    Mutant(
        "LN5",
        "mean x² - (mean x)² cancels where the mean is far from zero, instead of mean (x - mean x)².",
        "LayerNorm",
        normalizing(variant("LN5")),
        caught_by=("precision",),
        dtype=torch.float32,
    ),
    Mutant(
        "LN6",
        "There is no β.",
        "LayerNorm",
        (after_init(nn.LayerNorm, without_bias),),
        caught_by=("state", "definition"),
    ),
    Mutant(
        "LN7",
        "Mean and variance go over the tokens of a feature, instead of the features of a token.",
        "LayerNorm",
        normalizing(variant("LN7", "over the tokens")),
        caught_by=("definition", "treats tokens alone", "ignores a shift"),
    ),
)
