"""The loss of the paper: cross-entropy with label smoothing."""

from __future__ import annotations

import warnings

from torch import Tensor
from torch.nn import Module

from scratch_transformer import functional


class CrossEntropyLoss(Module):
    """ℓ = -Σ_c w_c q_c log softmax(x)_c, with q = (1 - label_smoothing) target + label_smoothing / C.

    weight: w, (C,), or None. ignore_index: index targets of this value contribute nothing (padding).
    reduction: "mean", "sum" or "none". size_average, reduce: torch's old way to say reduction,
    with a warning.
    Source: Vaswani et al. 2017, section 5.4; Szegedy et al. 2016, section 7. Drop-in for `torch.nn.CrossEntropyLoss`.

    Raises:
        RuntimeError, ValueError, IndexError: when called; see `functional.cross_entropy`.
    """

    __constants__ = ["ignore_index", "reduction", "label_smoothing"]

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index
        self.reduction = reduction if size_average is None and reduce is None else _old_reduction(size_average, reduce)
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Logits (C,), (N, C) or (N, C, d₁, …) and targets (class indices or probabilities) -> the loss."""
        return functional.cross_entropy(
            input, target, self.weight, self.ignore_index, self.reduction, self.label_smoothing
        )


def _old_reduction(size_average: bool | None, reduce: bool | None) -> str:
    if reduce is False:
        reduction = "none"
    else:
        reduction = "sum" if size_average is False else "mean"
    message = f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead."
    warnings.warn(message, stacklevel=3)  # at whoever builds the loss
    return reduction
