"""What BERT cuts its layers into, and what it puts on top: outputs of sublayers, half a network, heads of sentences."""

from __future__ import annotations

from torch import Tensor, nn

from scratch_transformer.kit.canonical.activation import ACTIVATIONS
from scratch_transformer.kit.canonical.attention import Projection
from scratch_transformer.kit.canonical.blocks import connect
from scratch_transformer.kit.canonical.normalization import Norm
from scratch_transformer.kit.canonical.stacks import finished
from scratch_transformer.kit.recipe import Recipe


class SublayerOutput(nn.Module):
    """x (B, T, d_in), what the sublayer computed, and residual (B, T, d_model) -> norm(residual + x W + b)."""

    def __init__(self, d_in: int, d_model: int, recipe: Recipe) -> None:
        super().__init__()
        self.dense, self.norm, self.recipe = Projection(d_in, d_model, recipe), Norm(d_model, 1e-5, recipe), recipe

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        return connect(residual, lambda given: self.dense(x), self.norm, self.recipe)


class Intermediate(nn.Module):
    """x (B, T, d_model) -> activation(x W + b), (B, T, d_ff)."""

    def __init__(self, d_model: int, d_ff: int, recipe: Recipe) -> None:
        super().__init__()
        self.dense, self.recipe = Projection(d_model, d_ff, recipe), recipe

    def forward(self, x: Tensor) -> Tensor:
        return ACTIVATIONS[self.recipe.activation](self.dense(x))


class SentenceHead(nn.Module):
    """x (B, T, d_model) -> scores of classes (B, vocab_size), or the vector (B, d_model) before: one for a sentence."""

    def __init__(self, d_model: int, classes: int, recipe: Recipe) -> None:
        super().__init__()
        self.inner = Projection(d_model, d_model, recipe) if recipe.head_layer else nn.Identity()
        self.projection = Projection(d_model, classes, recipe) if recipe.head else nn.Identity()
        self.recipe = recipe

    def forward(self, x: Tensor) -> Tensor:
        pooled = {"first": x[:, 0], "last": x[:, -1], "mean": x.mean(1)}[self.recipe.pooled]
        vector = ACTIVATIONS[self.recipe.activation](self.inner(pooled)) if self.recipe.head_layer else pooled
        return finished(self.projection(vector), self.recipe.output)
