"""Masks as one additive array: 0 where a query may attend to a key, -inf where it may not, a bias anywhere between.

torch has two opposite conventions for boolean masks: True = may attend in `scaled_dot_product_attention`, True =
blocked in `MultiheadAttention` and everything built on it. Both end here.
"""

from __future__ import annotations

import numpy as np

from .arrays import Array, Cache, floats, require, sum_to


def causal(queries: int, keys: int) -> Array:
    """M[t, s] = [s ≤ t], (T, S): True where query t may attend to key s. Source: Vaswani et al. 2017, 3.2.3."""
    return np.tri(queries, keys, dtype=bool)


def additive(mask: Array, true_means: str) -> Array:
    """Return the mask in additive form; a float mask is one already.

    Args:
        mask: boolean or float.
        true_means: "may attend" or "blocked".
    """
    mask = np.asarray(mask)
    if mask.dtype == bool:
        return np.where(mask if true_means == "may attend" else ~mask, 0.0, -np.inf)
    (mask,) = floats(mask=mask)
    return mask


def merge(
    attn_mask: Array | None, key_padding_mask: Array | None, sizes: tuple[int, int, int, int]
) -> tuple[Array | None, Cache]:
    """M_bhts = attn_mask_ts + key_padding_mask_bs: a key is blocked if either mask blocks it.

    Args:
        attn_mask: (T, S), or (B·H, T, S) with the head varying faster; boolean (True = blocked) or float.
        key_padding_mask: (B, S), boolean (True = blocked) or float.
        sizes: (B, H, T, S).

    Returns:
        M, additive, broadcastable to (B, H, T, S), or None without masks; and the cache for `merge_backward`.

    Raises:
        ValueError: a mask has another shape.
    """
    B, H, T, S = sizes
    parts: list[Array] = []
    cache: list[tuple[tuple[int, ...], tuple[int, ...]] | None] = []
    for name, mask, shapes in (
        ("attn_mask", attn_mask, {(T, S): (1, 1, T, S), (B * H, T, S): (B, H, T, S)}),
        ("key_padding_mask", key_padding_mask, {(B, S): (B, 1, 1, S)}),
    ):
        if mask is None:
            cache.append(None)
            continue
        mask = np.asarray(mask)
        require(mask.shape in shapes, f"{name} has shape {mask.shape}, but must have {' or '.join(map(str, shapes))}")
        parts.append(additive(mask, "blocked").reshape(shapes[mask.shape]))
        cache.append(None if mask.dtype == bool else (mask.shape, shapes[mask.shape]))
    return (sum(parts[1:], start=parts[0]) if parts else None), tuple(cache)


def merge_backward(dmerged: Array | None, cache: Cache) -> tuple[Array | None, ...]:
    """Return (dattn_mask, dkey_padding_mask); None for a boolean mask.

    The merged mask is a sum of broadcast masks, so each one's gradient is dM summed over its copies.
    """
    return tuple(
        None if entry is None or dmerged is None else sum_to(dmerged, entry[1]).reshape(entry[0]) for entry in cache
    )
