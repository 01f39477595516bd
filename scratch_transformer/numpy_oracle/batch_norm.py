"""BatchNorm: LayerNorm's equation with the mean and the variance over the batch, one of each for every channel."""

from __future__ import annotations

import numpy as np

from .arrays import Array, Cache, floats, require
from .normalization import scale_shift, scale_shift_backward, standardize, standardize_backward


def batch_norm(
    x: Array,
    running_mean: Array | None = None,
    running_var: Array | None = None,
    weight: Array | None = None,
    bias: Array | None = None,
    training: bool = False,
    eps: float = 1e-5,
) -> tuple[Array, Cache]:
    """y = w (x - μ) / √(v + ε) + b for every channel.

    Args:
        x: (B, C) or (B, C, T).
        running_mean, running_var: (C,), the running statistics; needed in eval mode.
        weight, bias: w and b, (C,), or None.
        training: take μ and the biased variance v from this batch; otherwise they are the running statistics.
        eps: ε, added to the variance.

    Returns:
        y, of x's shape, and the cache for `batch_norm_backward`. Source: Ioffe and Szegedy 2015, algorithm 1.

    Raises:
        ValueError: the shapes disagree; eval mode has no running statistics; or training has one value per channel.
        NotImplementedError: training with an empty batch.
    """
    x, running_mean, running_var, weight, bias = floats(
        x=x, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias
    )
    _check(x, training, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    if training:
        x_hat, standardized = standardize(x, _all_but_channel(x), eps)
    else:
        inverse_std = _per_channel(1.0 / np.sqrt(running_var + eps), x)
        x_hat, standardized = (x - _per_channel(running_mean, x)) * inverse_std, (inverse_std,)
    weight, bias = (None if values is None else _per_channel(values, x) for values in (weight, bias))
    y, scaled = scale_shift(x_hat, weight, bias)
    return y, (training, standardized, scaled)


def batch_norm_backward(dy: Array, cache: Cache) -> tuple[Array, Array | None, Array | None]:
    """Return (dx, dweight, dbias).

    In training μ and v depend on x, which is `standardize_backward`. In eval mode they are constants, and the map is
    linear: dx = dx̂ / √(v + ε).
    """
    training, standardized, scaled = cache
    dx_hat, dweight, dbias = scale_shift_backward(dy, scaled)
    dx = standardize_backward(dx_hat, standardized) if training else dx_hat * standardized[0]
    return dx, None if dweight is None else dweight.reshape(-1), None if dbias is None else dbias.reshape(-1)


def updated_running_statistics(
    x: Array, running_mean: Array, running_var: Array, momentum: float
) -> tuple[Array, Array]:
    """running = (1 - momentum) running + momentum batch, for the mean and for the *unbiased* variance.

    The batch is normalised by its biased variance (divided by n), yet the unbiased one (n - 1) is remembered.

    Returns:
        the new running mean and variance, (C,) each.
    """
    x, running_mean, running_var = floats(x=x, running_mean=running_mean, running_var=running_var)
    _check(x, True, running_mean=running_mean, running_var=running_var)
    axes = _all_but_channel(x)
    mean, variance = x.mean(axis=axes), x.var(axis=axes, ddof=1)
    return (1 - momentum) * running_mean + momentum * mean, (1 - momentum) * running_var + momentum * variance


def _all_but_channel(x: Array) -> tuple[int, ...]:
    return (0,) if x.ndim == 2 else (0, 2)


def _per_channel(values_C: Array, x: Array) -> Array:
    """Shape the channels' values (C,) so that they broadcast over x: (1, C) or (1, C, 1)."""
    return values_C.reshape((1, -1) + (1,) * (x.ndim - 2))


def _check(x: Array, training: bool, **per_channel: Array | None) -> None:
    require(x.ndim in (2, 3), f"batch_norm: x must be (B, C) or (B, C, T), but has shape {x.shape}")
    for name, values in per_channel.items():
        found = x.shape[1:2] if values is None else values.shape
        require(found == x.shape[1:2], f"batch_norm: {name} must have the shape {x.shape[1:2]}, but has {found}")
    if training:
        if x.size == 0:
            raise NotImplementedError("batch_norm: an empty batch has no mean")
        require(x.size != x.shape[1], f"batch_norm: training needs more than 1 value per channel, but x is {x.shape}")
    else:
        given = all(per_channel.get(name) is not None for name in ("running_mean", "running_var"))
        require(given, "batch_norm: eval mode needs running_mean and running_var, but one is None")
