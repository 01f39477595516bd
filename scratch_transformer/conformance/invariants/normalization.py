"""What holds for LayerNorm, RMSNorm and BatchNorm1d."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from scratch_transformer.conformance.draw import Draw
from scratch_transformer.conformance.invariants.setting import (
    DEFAULT,
    Build,
    Setting,
    difference,
    named,
    order,
    prepared,
    response,
)

EPS = 0.3
"""Far larger than usual, and as large as the variance: a misplaced or another eps shows."""


def _norm(build: Build, draw: Draw, s: Setting, **options: Any) -> Any:
    return prepared(build(normalized_shape=s.E, **options), draw)


def _tokens(draw: Draw, s: Setting) -> Tensor:
    return draw.normal(s.B, s.T, s.E)


def ignores_a_shift(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """LN(x + c) = LN(x), and so is its gradient, for one c per token. LayerNorm."""
    f, x = _norm(build, draw, s, eps=EPS), _tokens(draw, s)
    shifted = x + draw.normal(s.B, s.T, 1, scale=30.0)
    return max(difference(a, b) for a, b in zip(response(f, shifted), response(f, x), strict=True))


def scales_with_eps(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """N(a x; a² ε) = N(x; ε) for a > 0; so N(a x) = N(x) for ε -> 0. LayerNorm and RMSNorm."""
    a = 0.01
    f, g = _norm(build, draw, s, eps=EPS), _norm(build, draw, s, eps=a**2 * EPS)
    g.load_state_dict(f.state_dict())
    x = _tokens(draw, s)
    return difference(g(a * x), f(x))


def has_unit_variance(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """mean y = 0 and mean y² = σ² / (σ² + ε), σ² = mean (x - mean x)², without γ and β. LayerNorm."""
    x = _tokens(draw, s)
    y = _norm(build, draw, s, eps=EPS, elementwise_affine=False)(x)
    variance = (x - x.mean(-1, keepdim=True)).square().mean(-1)
    return max(difference(y.mean(-1), 0.0), difference(y.square().mean(-1), variance / (variance + EPS)))


def has_unit_mean_square(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """mean y² = r / (r + ε), r = mean x², without γ. RMSNorm."""
    x = _tokens(draw, s)
    y = _norm(build, draw, s, eps=EPS, elementwise_affine=False)(x)
    mean_square = x.square().mean(-1)
    return difference(y.square().mean(-1), mean_square / (mean_square + EPS))


def is_odd(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """N(-x) = -N(x) without β. LayerNorm and RMSNorm."""
    f, x = _norm(build, draw, s, eps=EPS, elementwise_affine=False), _tokens(draw, s)
    return difference(f(-x), -f(x))


def treats_tokens_alone(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """N(x)[b, t] = N(x[b, t]). LayerNorm and RMSNorm."""
    f, x = _norm(build, draw, s), _tokens(draw, s)
    return difference(f(x), torch.stack([f(token) for token in x.flatten(0, 1)]).reshape(x.shape))


def standardises_channels(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """mean y = 0 and mean y² = σ² / (σ² + ε) of every channel, over batch and positions, in training. BatchNorm1d."""
    f = prepared(build(num_features=s.E, eps=EPS, affine=False), draw, training=True)
    x = draw.normal(s.B, s.E, s.T + 1)
    y, variance = f(x), x.var((0, 2), correction=0)
    return max(difference(y.mean((0, 2)), 0.0), difference(y.square().mean((0, 2)), variance / (variance + EPS)))


def reorders_with_its_batch(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """BN(P x) = P BN(x) for every permutation P of the batch, in training. BatchNorm1d."""
    f = prepared(build(num_features=s.E), draw, training=True)
    x, p = draw.normal(s.B + 1, s.E), order(s.B + 1, draw)
    return difference(f(x[p]), f(x)[p])


def treats_samples_alone(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """BN(x)[b] = BN(x[b]) in evaluation, where the statistics are fixed. BatchNorm1d."""
    f, x = prepared(build(num_features=s.E), draw), draw.normal(s.B, s.E, s.T)
    return difference(f(x), torch.cat([f(sample) for sample in x.split(1)]))


LAYER_NORM = named(ignores_a_shift, scales_with_eps, has_unit_variance, is_odd, treats_tokens_alone)
RMS_NORM = named(scales_with_eps, has_unit_mean_square, is_odd, treats_tokens_alone)
BATCH_NORM = named(standardises_channels, reorders_with_its_batch, treats_samples_alone)
