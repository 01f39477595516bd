"""Label smoothing alone: it is given targets, rows of 0 and 1, and returns others; a loss is made of them elsewhere."""

from __future__ import annotations

import inspect
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from scratch_transformer.kit.definitions import parameters_of
from scratch_transformer.kit.kind import Kind
from scratch_transformer.kit.resolve.names.words import plain

NOTE = "It smooths targets alone: the cross-entropy with what it returns was taken."


def with_cross_entropy(made: Any, kind: Kind) -> Any:
    """What is named so and takes nothing else, as a loss that is told of no padding; everything else as it is."""
    name = made.__name__ if inspect.isfunction(made) else type(made).__name__
    given = [p for p in parameters_of(getattr(made, "forward", made)) if p.default is p.empty]
    is_one = isinstance(made, nn.Module) or inspect.isfunction(made)
    if kind.name != "Loss" or not is_one or "smooth" not in plain(name) or len(given) != 1:
        return made

    def loss(logits: Tensor, target: Tensor) -> Tensor:
        wanted = made(functional.one_hot(target, logits.shape[-1]).to(logits.dtype))
        return -(wanted * logits.log_softmax(-1)).sum(-1).mean()

    loss.note = NOTE  # type: ignore[attr-defined]
    return loss
