"""How far apart two tensors are: a relative error where they should be equal, a ratio of errors where rounding is."""

from __future__ import annotations

import torch
from torch import Tensor


def relative_error(actual: Tensor, expected: Tensor, least_scale: float = 0.0) -> float:
    """‖actual - expected‖∞ / max(‖expected‖∞, least_scale). Infinite unless shape, dtype, infinities and NaNs agree."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return float("inf")
    finite = expected.isfinite()
    if not (actual.isfinite().equal(finite) and _same(actual, expected)[~finite].all()):
        return float("inf")
    if not finite.any():
        return 0.0
    actual, expected = actual[finite].double(), expected[finite].double()
    scale = max(expected.abs().max().item(), least_scale)
    difference = (actual - expected).abs().max().item()
    return difference / scale if scale > 0 else difference


def error_ratio(ours: Tensor, builtin: Tensor, golden: Tensor, limit: float) -> float:
    """(our error + f) / (builtin's error + f), errors as ‖·- golden‖∞.

    With f = floor / (limit - 1) the ratio is at most `limit` exactly when our error ≤ limit · builtin's error + floor.
    The floor is the bound of 2 max |g + 0.3 - 0.3 - g|, g the golden result: one unit in the last place of |g| or 0.3.

    Infinities and NaNs have no size of error: where the builtin has one, or should have, ours must have the same, or
    be right. Otherwise the ratio is infinite.
    """
    if ours.shape != builtin.shape or ours.dtype != builtin.dtype:
        return float("inf")
    if not ours.is_floating_point() or ours.numel() == 0:
        return 1.0 if torch.equal(ours, builtin) else float("inf")
    ours_counts, builtin_counts = (x.isfinite() & golden.isfinite() for x in (ours, builtin))
    if not (ours_counts | (_same(ours, builtin) & ~builtin_counts)).all():
        return float("inf")
    size = golden[golden.isfinite()].abs().max().item() if golden.isfinite().any() else 0.0
    f = torch.finfo(ours.dtype).eps * max(size, 0.3) / (limit - 1)
    our_error = (ours.double() - golden)[ours_counts].abs()
    builtin_error = (builtin.double() - golden)[builtin_counts].abs()
    return (largest(our_error) + f) / (largest(builtin_error) + f)


def _same(a: Tensor, b: Tensor) -> Tensor:
    """Where two tensors have the same value, NaN for NaN."""
    return (a == b) | (a.isnan() & b.isnan())


def largest(x: Tensor) -> float:
    """max x, or 0 if x is empty."""
    return x.max().item() if x.numel() else 0.0
