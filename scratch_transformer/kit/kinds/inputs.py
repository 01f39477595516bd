"""Sizes, masks and draws that the probes of all kinds share. All sizes differ, so that no transposition can hide."""

from __future__ import annotations

import torch
from torch import Tensor

from scratch_transformer import masks
from scratch_transformer.conformance.draw import Draw

B, T, S = 2, 5, 7  # samples, queries, keys
D_MODEL, HEADS, D_FF = 12, 3, 17
EPS = 1e-5
"""The default of nn.LayerNorm, and of every norm of the reference that is told no other."""


def real(length: int, side: str = "right", batch: int = B) -> Tensor:
    """(batch, length), True = no padding: the second sample has two padded positions."""
    padded = torch.arange(batch).unsqueeze(1) * 2
    position = torch.arange(length)
    return position < length - padded if side == "right" else position >= padded


def gap(length: int, batch: int = B) -> Tensor:
    """(batch, length), True = no padding: the second token of the second sample is padding.

    Under a causal mask only padding with tokens after it shows, and every token has one before it to attend to.
    """
    real = torch.ones(batch, length, dtype=torch.bool)
    real[1, 1] = False
    return real


def keys(real: Tensor) -> Tensor:
    """(B, S) -> (B, 1, 1, S): the mask of padding."""
    return real[:, None, None, :]


def causal(length: int) -> Tensor:
    """(1, 1, T, T)."""
    return masks.causal(length)[None, None]


def queries(real: Tensor) -> Tensor:
    """(B, T) -> (B, T, 1): where an output (B, T, C) counts."""
    return real[..., None]


__all__ = ["D_FF", "D_MODEL", "EPS", "HEADS", "B", "Draw", "S", "T", "causal", "gap", "keys", "queries", "real"]
