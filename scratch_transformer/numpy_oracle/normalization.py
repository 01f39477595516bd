"""LayerNorm, BatchNorm and RMSNorm. The first two are one equation over different axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .arrays import Array, Cache, floats, require, sum_to


def standardize(x: Array, axes: tuple[int, ...], eps: float) -> tuple[Array, Cache]:
    """x̂ = (x - μ) / σ with μ = mean(x), σ = √(mean((x - μ)²) + ε) over `axes`."""
    centred = x - x.mean(axis=axes, keepdims=True)
    inverse_std = 1.0 / np.sqrt((centred**2).mean(axis=axes, keepdims=True) + eps)
    x_hat = centred * inverse_std
    return x_hat, (x_hat, inverse_std, axes)


def standardize_backward(dx_hat: Array, cache: Cache) -> Array:
    """Return dx = (dx̂ - mean(dx̂) - x̂ mean(dx̂ x̂)) / σ, the means over `axes`.

    x reaches x̂ in three ways. Write c = x - μ, so that x̂ = c/σ and σ² = mean(c²) + ε:

        dσ   = Σ dx̂ · (-c/σ²) = -Σ(dx̂ x̂) / σ             σ divides every element
        dc   = dx̂/σ + dσ · c/(nσ)                           ∂σ/∂c_i = c_i / (nσ)
             = (dx̂ - x̂ mean(dx̂ x̂)) / σ
        dx   = dc - mean(dc)                                every c_j contains -x_i/n
             = (dx̂ - mean(dx̂) - x̂ mean(dx̂ x̂)) / σ         as mean(x̂) = 0
    """
    x_hat, inverse_std, axes = cache
    mean = dx_hat.mean(axis=axes, keepdims=True)
    slope = (dx_hat * x_hat).mean(axis=axes, keepdims=True)
    return inverse_std * (dx_hat - mean - x_hat * slope)


def scale_shift(x_hat: Array, weight: Array | None, bias: Array | None) -> tuple[Array, Cache]:
    """y = w x̂ + b, elementwise, broadcasting; without w or b the identity in its place."""
    scaled = x_hat if weight is None else x_hat * weight
    return (scaled if bias is None else scaled + bias), (x_hat, weight, bias)


def scale_shift_backward(dy: Array, cache: Cache) -> tuple[Array, Array | None, Array | None]:
    """Return (dx̂, dweight, dbias): dx̂ = dy w, dw = Σ dy x̂, db = Σ dy; the sums undo the broadcasting."""
    x_hat, weight, bias = cache
    dx_hat = dy if weight is None else dy * weight
    dweight = None if weight is None else sum_to(dy * x_hat, weight.shape)
    dbias = None if bias is None else sum_to(dy, bias.shape)
    return dx_hat, dweight, dbias


def layer_norm(
    x: Array,
    normalized_shape: Sequence[int],
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
) -> tuple[Array, Cache]:
    """y = w (x - μ) / √(var(x) + ε) + b, the mean and the (biased) variance over each position's features.

    Args:
        x: (..., *normalized_shape).
        normalized_shape: the trailing dimensions that are normalised together.
        weight: w, of shape `normalized_shape`, or None.
        bias: b, of shape `normalized_shape`, or None.
        eps: ε, added to the variance.

    Returns:
        y, of x's shape, and the cache for `layer_norm_backward`. Source: Ba, Kiros and Hinton 2016, section 3.

    Raises:
        ValueError: the shapes disagree.
    """
    x, weight, bias = floats(x=x, weight=weight, bias=bias)
    axes = _trailing_axes("layer_norm", x, normalized_shape, weight=weight, bias=bias)
    x_hat, standardized = standardize(x, axes, eps)
    y, scaled = scale_shift(x_hat, weight, bias)
    return y, (standardized, scaled)


def layer_norm_backward(dy: Array, cache: Cache) -> tuple[Array, Array | None, Array | None]:
    """Return (dx, dweight, dbias): back through `scale_shift`, then through `standardize`."""
    standardized, scaled = cache
    dx_hat, dweight, dbias = scale_shift_backward(dy, scaled)
    return standardize_backward(dx_hat, standardized), dweight, dbias


def rms_norm(
    x: Array, normalized_shape: Sequence[int], weight: Array | None = None, eps: float | None = None
) -> tuple[Array, Cache]:
    """y = w x̂ with x̂ = x / r and r = √(mean(x²) + ε) over each position's features.

    Args:
        x: (..., *normalized_shape).
        normalized_shape: the trailing dimensions that are normalised together.
        weight: w, of shape `normalized_shape`, or None.
        eps: ε; None is the smallest ε with 1 + ε > 1 in float64, 2⁻⁵².

    Returns:
        y, of x's shape, and the cache for `rms_norm_backward`. Source: Zhang and Sennrich 2019, section 3.

    Raises:
        ValueError: the shapes disagree.
    """
    x, weight = floats(x=x, weight=weight)
    axes = _trailing_axes("rms_norm", x, normalized_shape, weight=weight)
    eps = float(np.finfo(np.float64).eps) if eps is None else eps
    inverse_rms = 1.0 / np.sqrt((x**2).mean(axis=axes, keepdims=True) + eps)
    x_hat = x * inverse_rms
    y, scaled = scale_shift(x_hat, weight, None)
    return y, (x_hat, inverse_rms, axes, scaled)


def rms_norm_backward(dy: Array, cache: Cache) -> tuple[Array, Array | None]:
    """Return (dx, dweight): dx = (dx̂ - x̂ mean(dx̂ x̂)) / r, the LayerNorm gradient without the mean's part.

    x_i reaches x̂_i = x_i/r directly, and every x̂_j through r, with ∂r/∂x_i = x_i/(nr) = x̂_i/n:

        dr   = Σ_j dx̂_j (-x_j/r²) = -Σ_j dx̂_j x̂_j / r
        dx_i = dx̂_i/r + dr x̂_i/n = (dx̂_i - x̂_i mean(dx̂ x̂)) / r
    """
    x_hat, inverse_rms, axes, scaled = cache
    dx_hat, dweight, _ = scale_shift_backward(dy, scaled)
    slope = (dx_hat * x_hat).mean(axis=axes, keepdims=True)
    return inverse_rms * (dx_hat - x_hat * slope), dweight


def _trailing_axes(name: str, x: Array, normalized_shape: Sequence[int], **parameters: Array | None) -> tuple[int, ...]:
    shape = tuple(normalized_shape)
    require(
        len(shape) > 0 and x.shape[-len(shape) :] == shape,
        f"{name}: x has shape {x.shape}, but its last dimensions must be normalized_shape={shape}",
    )
    for key, value in parameters.items():
        found = shape if value is None else value.shape
        require(found == shape, f"{name}: {key} must have the shape normalized_shape={shape}, but has {found}")
    return tuple(range(-len(shape), 0))
