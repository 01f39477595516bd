"""Layer, root-mean-square and batch normalization."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter, init

from scratch_transformer import functional


def _as_shape(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    return (normalized_shape,) if isinstance(normalized_shape, numbers.Integral) else tuple(normalized_shape)  # type: ignore


class LayerNorm(Module):
    """y = (x - μ) / √(σ² + ε) · γ + β over the last dimensions of x. Source: Ba et al. 2016, equation 3.

    normalized_shape: the size of those dimensions, an int for one or a tuple for several.
    weight, bias: γ and β, of normalized_shape, starting at one and zero; absent with elementwise_affine=False (β also
    with bias=False). Drop-in for `torch.nn.LayerNorm`.
    """

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]
    weight: Tensor | None
    bias: Tensor | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        for name, is_used in {"weight": elementwise_affine, "bias": elementwise_affine and bias}.items():
            values = Parameter(torch.empty(self.normalized_shape, device=device, dtype=dtype)) if is_used else None
            self.register_parameter(name, values)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """γ = 1, β = 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """(*, *normalized_shape) -> the same."""
        return functional.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """y = x / √(mean x² + ε) · γ over the last dimensions of x. Source: Zhang & Sennrich 2019.

    normalized_shape, weight: as in `LayerNorm`. eps=None: the machine epsilon. Drop-in for `torch.nn.RMSNorm`.
    """

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]
    weight: Tensor | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        values = (
            Parameter(torch.empty(self.normalized_shape, device=device, dtype=dtype)) if elementwise_affine else None
        )
        self.register_parameter("weight", values)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """γ = 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        """(*, *normalized_shape) -> the same."""
        return functional.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class BatchNorm1d(Module):
    """y = (x - μ) / √(σ² + ε) · γ + β with μ and σ² per channel. Source: Ioffe & Szegedy 2015, algorithms 1 and 2.

    In training μ and σ² are those of the batch, and running averages are kept: running ← (1 - m) running + m batch,
    m = momentum, or 1 / (number of batches so far) with momentum=None; the running variance is the unbiased one, which
    divides by n - 1. In evaluation the running averages are used, or the batch with track_running_stats=False.
    weight, bias: γ and β, (num_features,). Drop-in for `torch.nn.BatchNorm1d`.

    Raises:
        ValueError: when called, if the input is not (N, C) or (N, C, L), a training batch has one value per channel, or
            eps is negative, or zero in training.
        RuntimeError: when called, if C is not num_features.
    """

    _version = 2  # of the state_dict: torch's since num_batches_tracked joined
    __constants__ = ["track_running_stats", "momentum", "eps", "num_features", "affine"]
    weight: Tensor | None
    bias: Tensor | None
    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        for name, is_used in {"weight": affine, "bias": affine and bias}.items():
            values = Parameter(torch.empty(num_features, device=device, dtype=dtype)) if is_used else None
            self.register_parameter(name, values)
        for name in ("running_mean", "running_var"):
            average = torch.empty(num_features, device=device, dtype=dtype) if track_running_stats else None
            self.register_buffer(name, average)
        count = torch.empty((), dtype=torch.long, device=device) if track_running_stats else None
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Running mean 0, running variance 1, no batches seen."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """γ = 1, β = 0, and fresh running averages."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """(N, C) or (N, C, L) -> the same."""
        uses_batch = self.training or self.running_mean is None
        self._check_input(input, uses_batch)
        if uses_batch:
            mean, variance = functional.channel_statistics(input)
            if self.training and self.track_running_stats:
                self.num_batches_tracked.add_(1)
            if self.training and self.track_running_stats and input.numel() > 0:
                self._update_running(mean.detach(), variance.detach(), input.numel() // self.num_features)
        else:
            mean, variance = self.running_mean, self.running_var
        return functional.batch_norm(input, mean, variance, self.weight, self.bias, self.eps)

    def _update_running(self, mean: Tensor, variance: Tensor, n: int) -> None:
        momentum = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        for running, batch in ((self.running_mean, mean), (self.running_var, variance * (n / (n - 1)))):
            running.copy_((1 - momentum) * running + momentum * batch)

    def _check_input(self, input: Tensor, uses_batch: bool) -> None:
        shape = tuple(input.shape)
        if self.eps < 0 or (self.eps == 0 and uses_batch):
            raise ValueError(f"BatchNorm1d: eps must be positive (or zero, in evaluation), but is {self.eps}")
        if input.dim() not in (2, 3):
            raise ValueError(
                f"BatchNorm1d: expected 2D or 3D input (N, C) or (N, C, L), but got {input.dim()}D: {shape}"
            )
        if shape[1] != self.num_features:
            raise RuntimeError(
                f"BatchNorm1d: input must have num_features={self.num_features} channels in dimension 1, but is {shape}"
            )
        if uses_batch and input.numel() == self.num_features:
            raise ValueError(
                f"BatchNorm1d: expected more than 1 value per channel when training, but got input of shape {shape}"
            )

    def extra_repr(self) -> str:
        bias = f"bias={self.bias is not None}, "
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, {bias}"
            f"track_running_stats={self.track_running_stats}"
        )
