"""Rotary positions: every pair of features is turned by an angle that grows with the position."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import Array, Cache, floats, require, sum_to


def rotary_turns(positions: Array, d: int, base: float = 10_000.0, scaling: Any = None) -> Array:
    """cos θ and sin θ for θ = pos · base^(-2i/d), i = 0 ... d/2 - 1. Nothing here is differentiable.

    Args:
        positions: (..., L).
        d: the width of a head, even.
        scaling: None, or what has a `factor` that every frequency is divided by; with an original_length that is not
            None only slow pairs are: see `_scaled`.

    Returns:
        (2, ..., L, d/2). Source: Su et al. 2021, section 3.2.2.

    Raises:
        ValueError: d is odd or not positive.
    """
    require(d > 0 and d % 2 == 0, f"rotary_turns: d must be even and positive, but is {d}")
    (positions,) = floats(positions=positions)
    frequencies = np.power(float(base), -2.0 * np.arange(d // 2) / d)
    angles = np.multiply.outer(positions, frequencies if scaling is None else _scaled(frequencies, scaling))
    return np.stack((np.cos(angles), np.sin(angles)))


def _scaled(frequencies: Array, scaling: Any) -> Array:
    """Frequencies that turn n times in original_length tokens are kept for n ≥ high, divided for n ≤ low.

    Between the two, a share (n - low) / (high - low) is kept.
    """
    slow = frequencies / scaling.factor
    if scaling.original_length is None:
        return slow
    n = scaling.original_length * frequencies / (2.0 * np.pi)
    kept = np.interp(n, [scaling.low_frequency_factor, scaling.high_frequency_factor], [0.0, 1.0])
    return kept * frequencies + (1.0 - kept) * slow


def rotary(x: Array, turns: Array, interleaved: bool = False) -> tuple[Array, Cache]:
    """(u, v) = (a cos θ - b sin θ, a sin θ + b cos θ) for every pair (a, b) of features.

    Args:
        x: (..., L, d).
        turns: cos θ and sin θ, (2, ..., L, d/2), the rest broadcasting to the pairs of x.
        interleaved: pairs are the features 2i and 2i + 1; otherwise i and i + d/2.

    Returns:
        (..., L, d), and the cache for `rotary_backward`.

    Raises:
        ValueError: the widths disagree.
    """
    x, turns = floats(x=x, turns=turns)
    fits = turns.shape[0] == 2 and 2 * turns.shape[-1] == x.shape[-1]
    require(fits, f"rotary: turns {turns.shape} must be cosines and sines for the pairs of x {x.shape}")
    first, second = _places(x.shape[-1], interleaved)
    a, b = x[..., first], x[..., second]
    cos, sin = turns
    y = np.empty(x.shape)
    y[..., first], y[..., second] = a * cos - b * sin, a * sin + b * cos
    return y, (a, b, turns, first, second)


def rotary_backward(dy: Array, cache: Cache) -> tuple[Array, Array]:
    """Return (dx, dturns).

    A turn by θ has the matrix R = (cos, -sin; sin, cos), and dx = Rᵀ dy, the turn by -θ:

        da = du cos + dv sin        dcos = du a + dv b      summed over whatever the turns were broadcast to
        db = -du sin + dv cos       dsin = dv a - du b
    """
    a, b, turns, first, second = cache
    cos, sin = turns
    du, dv = dy[..., first], dy[..., second]
    dx = np.empty(dy.shape)
    dx[..., first], dx[..., second] = du * cos + dv * sin, dv * cos - du * sin
    dcos, dsin = sum_to(du * a + dv * b, cos.shape), sum_to(dv * a - du * b, sin.shape)
    return dx, np.stack((dcos, dsin))


def _places(d: int, interleaved: bool) -> tuple[slice, slice]:
    """Where the first and the second feature of every pair are."""
    if interleaved:
        return slice(0, d, 2), slice(1, d, 2)
    return slice(0, d // 2), slice(d // 2, d)
