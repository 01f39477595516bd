"""What holds for Linear, Embedding, Dropout and the activations."""

from __future__ import annotations

import torch
from torch import Tensor

from scratch_transformer.conformance.draw import VOCABULARY, Draw
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


def is_affine(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """f(a x + b y) = a f(x) + b f(y) + (1 - a - b) f(0). Linear."""
    f = prepared(build(in_features=s.E, out_features=s.FF, bias=s.bias), draw)
    x, y = draw.normal(s.B, s.T, s.E), draw.normal(s.B, s.T, s.E)
    a, b = 0.7, -1.9
    return difference(f(a * x + b * y), a * f(x) + b * f(y) + (1 - a - b) * f(torch.zeros_like(x)))


def bias_is_the_value_at_zero(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """f(0) = b, or 0 without bias. Linear."""
    f = prepared(build(in_features=s.E, out_features=s.FF, bias=s.bias), draw)
    value = f(draw.normal(s.T, s.E) * 0)
    return difference(value, f.bias.expand_as(value) if s.bias else 0.0)


def is_linear_in_the_table(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """f(ids; W) = onehot(ids) W, and ∂f/∂W = onehot(ids)ᵀ. Embedding."""
    f = prepared(build(num_embeddings=VOCABULARY, embedding_dim=s.E), draw)
    ids = draw.ids(s.B, s.S)
    one_hot = torch.eye(VOCABULARY, dtype=draw.dtype, device=draw.device)[ids]
    output, upstream = f(ids), draw.normal(s.B, s.S, s.E)
    (gradient,) = torch.autograd.grad(output, f.weight, upstream)
    expected = one_hot.flatten(0, 1).T @ upstream.flatten(0, 1)
    return max(difference(output, one_hot @ f.weight), difference(gradient, expected))


def padding_row_is_frozen(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """W[padding_idx] = 0 at first, ∂f/∂W[padding_idx] = 0, and ∂f/∂W[i] = onehot(ids)ᵀ elsewhere. Embedding."""
    pad = 1 + int(draw.ids(below=VOCABULARY - 1))  # 0 is what is hard-coded
    f = build(num_embeddings=VOCABULARY, embedding_dim=s.E, padding_idx=pad)
    at_first = f.weight.detach()[pad].abs().max().item()
    ids = torch.arange(VOCABULARY, device=draw.device).repeat(2)
    prepared(f, draw)
    (gradient,) = torch.autograd.grad(f(ids).sum(), f.weight)
    expected = torch.full_like(gradient, 2.0)  # every id occurs twice
    expected[pad] = 0
    return max(at_first, difference(gradient, expected))


def is_identity_in_evaluation(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """f(x) = x outside training. Dropout."""
    x = draw.normal(s.B, s.T, s.E)
    return difference(prepared(build(p=0.3), draw)(x), x)


def drops_or_scales(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """f(x)ᵢ is 0 or xᵢ / (1 - p), and ∂f/∂x is 0 or 1 / (1 - p) at the same places, in training. Dropout."""
    p = 0.3
    f = prepared(build(p=p), draw, training=True)
    x = draw.normal(s.B, s.T, s.E).requires_grad_()
    torch.manual_seed(int(draw.ids(below=2**31)))
    y = f(x)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    factor = (y != 0).to(y.dtype) / (1 - p)
    return max(difference(y, x * factor), difference(gradient, factor))


def drops_the_share_p(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """Of n elements n p ± 6 √(n p (1 - p)) are zeroed, so the mean of f(x) is that of x. Dropout."""
    p, n = 0.3, 20_000
    f = prepared(build(p=p), draw, training=True)
    torch.manual_seed(int(draw.ids(below=2**31)))
    y = f(torch.ones(n, dtype=draw.dtype, device=draw.device))
    sigma = (p * (1 - p) / n) ** 0.5
    share_is_off = abs((y == 0).double().mean().item() - p) - 6 * sigma
    mean_is_off = abs(y.double().mean().item() - 1) - 6 * sigma / (1 - p)
    return max(share_is_off, mean_is_off, 0.0)


def splits_the_identity(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """f(x) - f(-x) = x: of relu and of gelu, x Φ(x), because Φ(x) + Φ(-x) = 1."""
    f = build()
    x = draw.normal(s.B, s.T, s.E, scale=3.0)
    return difference(f(x) - f(-x), x)


def is_never_negative(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """f(x) ≥ 0 and f(f(x)) = f(x). ReLU."""
    f = build()
    y = f(draw.normal(s.B, s.T, s.E))
    return max(difference(f(y), y), (-y).max().item())


def ignores_a_shift(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """softmax(x + c) = softmax(x), and so is its gradient, for one c per row."""
    f = build(dim=-1)
    x, c = draw.normal(s.B, s.T, s.S), draw.normal(s.B, s.T, 1, scale=30.0)
    return max(difference(a, b) for a, b in zip(response(f, x + c), response(f, x), strict=True))


def is_a_distribution(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """softmax(x)ᵢ ≥ 0, Σᵢ softmax(x)ᵢ = 1 and log softmax(x)ᵢ - log softmax(x)ⱼ = xᵢ - xⱼ, along any dimension."""
    errors = []
    for dim in (0, 1, -1):
        x = draw.normal(s.B, s.T, s.S)
        y: Tensor = build(dim=dim)(x)
        ratio = y.log() - y.log().mean(dim, keepdim=True)
        errors += [difference(y.sum(dim), 1.0), difference(ratio, x - x.mean(dim, keepdim=True)), (-y).max().item()]
    return max(*errors, 0.0)


def reorders_with_its_input(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """softmax(P x) = P softmax(x) for every permutation P."""
    f, p = build(dim=-1), order(s.S, draw)
    x = draw.normal(s.B, s.T, s.S)
    return difference(f(x[..., p]), f(x)[..., p])


LINEAR = named(is_affine, bias_is_the_value_at_zero)
EMBEDDING = named(is_linear_in_the_table, padding_row_is_frozen)
DROPOUT = named(is_identity_in_evaluation, drops_or_scales, drops_the_share_p)
SOFTMAX = named(ignores_a_shift, is_a_distribution, reorders_with_its_input)
RELU = named(splits_the_identity, is_never_negative)
GELU = named(splits_the_identity)
