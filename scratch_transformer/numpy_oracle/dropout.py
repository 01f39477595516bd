"""Dropout with the random choice taken out: the caller says which elements are kept."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .arrays import Array, Cache, floats, require, scope

KeepMasks = Mapping[str, Array]  # keyed by the dotted name of the module that drops, as in named_modules()


def dropout(x: Array, p: float = 0.0, keep: Array | None = None) -> tuple[Array, Cache]:
    """y = x m / (1 - p), where the keep-mask m is 1 with probability 1 - p and 0 otherwise.

    Args:
        x: any shape.
        p: the probability of dropping an element.
        keep: m, of x's shape: True or 1 where the element survives. None is eval mode, y = x.

    Returns:
        y, of x's shape, and the cache for `dropout_backward`. Source: Srivastava et al. 2014.

    Raises:
        ValueError: `p` is outside [0, 1], or `keep` has another shape than `x`.
    """
    (x,) = floats(x=x)
    require(0.0 <= p <= 1.0, f"dropout: p must be between 0 and 1, but is {p}")
    if keep is None:
        return x, (None,)
    keep = np.asarray(keep, dtype=bool)
    require(keep.shape == x.shape, f"dropout: keep has shape {keep.shape}, but must have x's shape {x.shape}")
    # at p = 1 nothing survives: 0/0 must not become NaN
    factor = np.zeros_like(x) if p == 1.0 else keep / (1.0 - p)
    return x * factor, (factor,)


def dropout_backward(dy: Array, cache: Cache) -> Array:
    """Return dx = dy m / (1 - p): the mask is a constant, and y is linear in x."""
    (factor,) = cache
    return dy if factor is None else dy * factor


def keep_mask(keep_masks: KeepMasks | None, name: str, p: float) -> Array | None:
    """Return the keep-mask of the dropout called `name`, or None where it has nothing to drop.

    `keep_masks=None` is eval mode. Otherwise this is train mode, and with p > 0 every dropout needs its mask.

    Raises:
        KeyError: the mask is missing.
    """
    if keep_masks is None or p == 0.0:
        return None
    if name not in keep_masks:
        raise KeyError(f"keep_masks has no mask for dropout {name!r} (p={p}); given are {sorted(keep_masks)}")
    return keep_masks[name]


def masks_within(keep_masks: KeepMasks | None, name: str) -> KeepMasks | None:
    """Return the keep-masks of the submodule `name` under its own names; None (eval mode) stays None."""
    return None if keep_masks is None else scope(keep_masks, name)
