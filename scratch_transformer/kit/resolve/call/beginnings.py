"""What answers for the last token alone: called with every beginning of a sequence, there is an answer to each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from scratch_transformer.kit.kind import Inputs

LAST_OF = {"Projection": "x", "DecoderOnly": "ids", "LlamaModel": "ids", "TokenDecoder": "ids", "Transformer": "tgt"}
"""Kinds that give scores for every token -> the sequence of these tokens."""
OWN_MASKS = ("mask", "tgt_mask")
"""Those with a row and a column for every token of the sequence; others have rows at most."""


def is_last_only(kind: str, inputs: Inputs, output: Tensor, expected: torch.Size | None) -> bool:
    """Whether there are scores for one token of each sentence, where every token should have some."""
    sequence = inputs.get(LAST_OF.get(kind, ""))
    if expected is None or len(expected) != 3 or not isinstance(sequence, Tensor) or sequence.shape[1] < 2:
        return False
    batch, _, words = expected
    return tuple(output.shape) in ((batch, words), (batch, 1, words))


def with_every_beginning(call: Callable[[Inputs], Tensor], inputs: Inputs, name: str) -> Tensor:
    """(B, T, V) of the scores (B, V) that are given for the first token, the first two, and so on."""
    batch, length = inputs[name].shape[:2]
    return torch.stack([call(_begun(inputs, name, end)).reshape(batch, -1) for end in range(1, length + 1)], dim=1)


def _begun(inputs: Inputs, name: str, end: int) -> dict[str, Any]:
    """The inputs with the first tokens of one sequence, and no more."""
    length, begun = inputs[name].shape[1], dict(inputs)
    begun[name] = inputs[name][:, :end]
    for mask, keep in inputs.items():
        if mask in OWN_MASKS and isinstance(keep, Tensor):
            begun[mask] = keep[..., :end]
        if mask.endswith("mask") and isinstance(keep, Tensor) and keep.dim() > 1 and keep.shape[-2] == length:
            begun[mask] = begun[mask][..., :end, :]
    return begun
