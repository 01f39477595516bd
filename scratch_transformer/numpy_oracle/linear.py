"""The affine map, and the embedding table, which is the affine map of a one-hot vector."""

from __future__ import annotations

import numpy as np

from .arrays import Array, Cache, floats, require


def linear(x: Array, weight: Array, bias: Array | None = None) -> tuple[Array, Cache]:
    """y = x Wᵀ + b.

    Args:
        x: (..., I).
        weight: W, (O, I).
        bias: b, (O,), or None.

    Returns:
        y (..., O), and the cache for `linear_backward`.

    Raises:
        ValueError: the shapes disagree.
    """
    x, weight, bias = floats(x=x, weight=weight, bias=bias)
    require(weight.ndim == 2, f"linear: weight must be (out_features, in_features), but has shape {weight.shape}")
    require(
        x.ndim > 0 and x.shape[-1] == weight.shape[1],
        f"linear: x has shape {x.shape}, but its last dimension must be in_features={weight.shape[1]}",
    )
    require(
        bias is None or bias.shape == weight.shape[:1],
        f"linear: bias must have shape {weight.shape[:1]}, but has {None if bias is None else bias.shape}",
    )
    y = x @ weight.T
    return (y if bias is None else y + bias), (x, weight, bias is not None)


def linear_backward(dy: Array, cache: Cache) -> tuple[Array, Array, Array | None]:
    """Return (dx, dweight, dbias).

    One element is y_no = Σ_i x_ni W_oi + b_o. Each input collects the outputs that it took part in:

        dx_ni = Σ_o dy_no ∂y_no/∂x_ni = Σ_o dy_no W_oi      dx = dy W
        dW_oi = Σ_n dy_no ∂y_no/∂W_oi = Σ_n dy_no x_ni      dW = dyᵀ x
        db_o  = Σ_n dy_no                                   the bias was copied to every row n
    """
    x, weight, has_bias = cache
    dy_NO = dy.reshape(-1, weight.shape[0])
    x_NI = x.reshape(-1, weight.shape[1])
    return dy @ weight, dy_NO.T @ x_NI, dy_NO.sum(axis=0) if has_bias else None


def embedding(
    ids: Array, weight: Array, padding_idx: int | None = None, scale_grad_by_freq: bool = False
) -> tuple[Array, Cache]:
    """y = W[ids]: row `ids[n]` of the table for every n.

    Args:
        ids: (...), integers in [0, V).
        weight: W, (V, E).
        padding_idx: the row that receives no gradient; negative counts from the end.
        scale_grad_by_freq: divide each row's gradient by the number of its occurrences in `ids`.

    Returns:
        y (..., E), and the cache for `embedding_backward`.

    Raises:
        TypeError: `ids` are not integers.
        IndexError: an id is outside [0, V).
        ValueError: `weight` is not a matrix.
    """
    (weight,) = floats(weight=weight)
    ids = np.asarray(ids)
    require(weight.ndim == 2, f"embedding: weight must be (num_embeddings, d_model), but has shape {weight.shape}")
    if ids.dtype.kind not in "iu":
        raise TypeError(f"embedding: ids must be integers, but their dtype is {ids.dtype}")
    if ids.size and not 0 <= ids.min() <= ids.max() < len(weight):
        raise IndexError(f"embedding: ids must be in [0, {len(weight)}), but range from {ids.min()} to {ids.max()}")
    return weight[ids], (ids, weight.shape, padding_idx, scale_grad_by_freq)


def embedding_backward(dy: Array, cache: Cache) -> Array:
    """Return dweight; the ids are not differentiable.

    With the one-hot row h_n (h_nv = 1 where v = ids_n) this is the linear map y_ne = Σ_v h_nv W_ve, hence

        dW_ve = Σ_n h_nv dy_ne                              row v sums dy over the places where v occurs
    """
    ids, (V, E), padding_idx, scale_grad_by_freq = cache
    ids_N = ids.reshape(-1)
    dweight_VE = np.zeros((V, E))
    np.add.at(dweight_VE, ids_N, dy.reshape(-1, E))  # unlike dweight[ids] += dy, this adds for every repeated id
    if scale_grad_by_freq:
        occurrences_V = np.bincount(ids_N, minlength=V)
        dweight_VE /= np.maximum(occurrences_V, 1)[:, None]
    if padding_idx is not None:
        dweight_VE[padding_idx] = 0.0
    return dweight_VE
