"""The two components with buffers: BatchNorm1d (running statistics) and CrossEntropyLoss (class weights)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import Array
from ..batch_norm import batch_norm, batch_norm_backward, updated_running_statistics
from ..loss import cross_entropy, cross_entropy_backward
from . import shapes
from .component import Component, Gradients


class BatchNorm1d(Component):
    """w (x - μ) / √(v + ε) + b for every channel; in training `buffers` of the result holds the new statistics."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.eps, self.momentum, self.tracks = eps, momentum, track_running_stats
        self.shapes = shapes.affine((num_features,), affine, affine and bias)
        if track_running_stats:
            statistics = {"running_mean": (num_features,), "running_var": (num_features,)}
            self.buffer_shapes = {**statistics, "num_batches_tracked": ()}

    def forward(self, input: Array) -> Array:
        """(B, C) or (B, C, T) to the same."""
        named = {key: self.state.get(key) for key in ("running_mean", "running_var", "weight", "bias")}
        training = self.training or not self.tracks
        y, self.cache = batch_norm(input, **named, training=training, eps=self.eps)
        if self.training and self.tracks:
            self._update(input)
        return y

    def backward(self, dy: Array) -> Gradients:
        """See `batch_norm_backward`."""
        dx, dweight, dbias = batch_norm_backward(dy, self.cache)
        return {"input": dx}, {"weight": dweight, "bias": dbias}

    def _update(self, x: Array) -> None:
        count = self.state["num_batches_tracked"] + 1
        # without a momentum, the plain average over all batches so far
        momentum = 1.0 / float(count) if self.momentum is None else self.momentum
        mean, variance = updated_running_statistics(x, self.state["running_mean"], self.state["running_var"], momentum)
        self.buffers = {"running_mean": mean, "running_var": variance, "num_batches_tracked": np.asarray(count)}


class CrossEntropyLoss(Component):
    """-Σ_c q_c log softmax(logits)_c."""

    inputs = ("input", "target")

    def __init__(
        self,
        weight: Any = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__()
        if size_average is not None or reduce is not None:
            raise NotImplementedError("CrossEntropyLoss(size_average, reduce): deprecated in favour of reduction")
        self.options: dict[str, Any] = {
            "ignore_index": ignore_index,
            "reduction": reduction,
            "label_smoothing": label_smoothing,
        }
        if weight is not None:
            self.buffer_shapes = {"weight": np.shape(weight)}

    def forward(self, input: Array, target: Array) -> Array:
        """Logits (N, C, ...) and class indices (N, ...) or probabilities (N, C, ...); the weight is a buffer."""
        y, self.cache = cross_entropy(input, target, self.state.get("weight"), **self.options)
        return y

    def backward(self, dy: Array) -> Gradients:
        """See `cross_entropy_backward`."""
        dlogits, dtarget = cross_entropy_backward(dy, self.cache)
        return {"input": dlogits, "target": dtarget}, {}
