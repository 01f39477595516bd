"""How a model is set while it decodes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from scratch_transformer.generation.modes import evaluating
from scratch_transformer.model import Transformer
from scratch_transformer.translation.errors import InputError


@contextmanager
def deciding(model: Transformer) -> Iterator[None]:
    """All of the model in evaluation mode and without gradients; afterwards each part in the mode it was in."""
    with evaluating(model), torch.inference_mode():
        yield


def check_finite(scores: Tensor) -> None:
    """Raises InputError for NaN and infinity: what follows from them looks like a translation, and is none."""
    if not scores.isfinite().all():
        raise InputError("the model computes no finite numbers: its weights are of no use")


def check_length(model: Transformer, max_length: int) -> None:
    """Raises ValueError unless the model has positions for max_length tokens."""
    longest = model.tgt_pos.seq_len
    if not 1 <= max_length <= longest:
        raise ValueError(f"decoding: max_length must be from 1 to the model's seq_len={longest}, but is {max_length}")
