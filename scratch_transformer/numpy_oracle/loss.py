"""Cross-entropy: the distance of the predicted from the wanted distribution over classes."""

from __future__ import annotations

import numpy as np

from .activations import log_softmax, log_softmax_backward
from .arrays import Array, Cache, floats, require


def cross_entropy(
    logits: Array,
    target: Array,
    weight: Array | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> tuple[Array, Cache]:
    """ℓ_n = -Σ_c q_nc log p_nc with p = softmax(logits), where 0 log 0 = 0.

    q_nc = w_c ((1 - ε) t_nc + ε/C): the target t (one-hot for a class index), smoothed and weighted, and q_n = 0 where
    the class index is `ignore_index`. "mean" divides Σ_n ℓ_n by the sum of the targets' class weights, over the rows
    that count (class indices), or by the number of rows (probabilities). It is NaN, as torch's, if no row counts.

    Args:
        logits: (C,), (N, C) or (N, C, ...): the classes are dimension 1, or 0 where there is no other.
        target: class indices, of logits' shape without C; or probabilities t, of logits' shape.
        weight: w, (C,), or None for ones.
        ignore_index: the class index of rows that do not count.
        reduction: "none", "mean" or "sum".
        label_smoothing: ε.

    Returns:
        the loss, () or of logits' shape without C, and the cache for `cross_entropy_backward`.
        Source: Szegedy et al. 2016, section 7; Vaswani et al. 2017, section 5.4.

    Raises:
        ValueError: the shapes disagree, or an option is not one of the above.
        TypeError: class indices are not integers, or probabilities not floats.
        IndexError: a class index is outside [0, C).
    """
    logits, weight = floats(logits=logits, weight=weight)
    target = np.asarray(target)
    _check(logits, target, weight, reduction, label_smoothing)
    class_dim = min(1, logits.ndim - 1)
    log_p, normalized = log_softmax(np.moveaxis(logits, class_dim, -1))  # (..., C)
    w = np.ones(logits.shape[class_dim]) if weight is None else weight
    if target.shape == logits.shape:
        q = w * _smoothed(np.moveaxis(target, class_dim, -1), label_smoothing)
        total = float(log_p[..., 0].size)
    else:
        q, total = _from_indices(target, w, ignore_index, label_smoothing)
    losses = -(q * np.where(q == 0.0, 0.0, log_p)).sum(axis=-1)
    with np.errstate(invalid="ignore"):  # 0/0 where no row counts
        loss = {"none": losses, "sum": losses.sum(), "mean": np.divide(losses.sum(), total)}[reduction]
    total = total if reduction == "mean" else 1.0
    soft_weight = w * (1.0 - label_smoothing) if target.shape == logits.shape else None
    return np.asarray(loss), (normalized, log_p, q, total, soft_weight, class_dim)


def cross_entropy_backward(dy: Array, cache: Cache) -> tuple[Array, Array | None]:
    """Return (dlogits, dtarget); dtarget is None for class indices.

    With g_n = dy/total the gradient that reaches ℓ_n, and ℓ_n = -Σ_c q_nc log p_nc:

        dlog p_nc = -g_n q_nc
        dlogits_nc = g_n (p_nc Σ_k q_nk - q_nc)             through log_softmax; the well-known p - q where Σ q = 1
        dt_nc = -g_n w_c (1 - ε) log p_nc                   ∂q_nc/∂t_nc = w_c (1 - ε)
    """
    normalized, log_p, q, total, soft_weight, class_dim = cache
    rows = np.broadcast_to(np.asarray(dy, dtype=np.float64), log_p.shape[:-1])[..., None]
    g = rows / total if total else np.zeros_like(rows)  # total 0: no row counts, and nothing moves
    dlogits = log_softmax_backward(-g * q, normalized)
    dtarget = None if soft_weight is None else np.moveaxis(-g * soft_weight * log_p, -1, class_dim)
    return np.moveaxis(dlogits, -1, class_dim), dtarget


def _smoothed(t: Array, label_smoothing: float) -> Array:
    """(1 - ε) t + ε/C: take ε of the wanted probability and spread it evenly."""
    return (1.0 - label_smoothing) * t + label_smoothing / t.shape[-1]


def _from_indices(target: Array, w: Array, ignore_index: int, label_smoothing: float) -> tuple[Array, float]:
    """Return q (..., C) and the sum of the class weights of the rows that count."""
    counts = target != ignore_index
    outside = counts & ((target < 0) | (target >= len(w)))
    if outside.any():
        raise IndexError(f"cross_entropy: target {target[outside][0]} is out of bounds for {len(w)} classes")
    index = np.where(counts, target, 0)
    q = w * _smoothed(np.eye(len(w))[index], label_smoothing) * counts[..., None]
    return q, float((w[index] * counts).sum())


def _check(logits: Array, target: Array, weight: Array | None, reduction: str, label_smoothing: float) -> None:
    require(logits.ndim > 0, "cross_entropy: logits must have a dimension of classes, but have shape ()")
    class_dim = min(1, logits.ndim - 1)
    rows, classes = logits.shape[:class_dim] + logits.shape[class_dim + 1 :], logits.shape[class_dim]
    require(
        target.shape in (rows, logits.shape),
        f"cross_entropy: target has shape {target.shape}, but logits {logits.shape} need class indices of shape {rows} "
        f"or probabilities of shape {logits.shape}",
    )
    kinds, wanted = ("f", "floats") if target.shape == logits.shape else ("iu", "integers")
    if target.dtype.kind not in kinds:
        raise TypeError(f"cross_entropy: target of shape {target.shape} must hold {wanted}, but is {target.dtype}")
    require(
        weight is None or weight.shape == (classes,),
        f"cross_entropy: weight must have shape ({classes},), but has {None if weight is None else weight.shape}",
    )
    require(reduction in ("none", "mean", "sum"), f"cross_entropy: reduction {reduction!r} is not none, mean or sum")
    require(
        0.0 <= label_smoothing <= 1.0, f"cross_entropy: label_smoothing must be in [0, 1], but is {label_smoothing}"
    )
