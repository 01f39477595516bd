"""Which keys a query may see in a variant of attention: as a mask, as a rule, and as a number of pairs."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from scratch_transformer import masks
from scratch_transformer.benchmarking.problem import Problem

WINDOW = 256
"""With a window, a query sees itself and the keys just before it: so many in all."""


def mask(case: Problem, device: str | torch.device) -> Tensor | None:
    """The boolean mask, True = may attend, of a case; None where it needs none.

    mask: nine pairs in ten, at random. padding: every other sequence, from the first, ends after three quarters.
    window: see `WINDOW`.
    """
    T, S = case.T, case.keys
    if case.variant == "mask":
        generator = torch.Generator(device).manual_seed(1)
        return torch.rand(T, S, generator=generator, device=device) < 0.9
    if case.variant == "padding":
        odd_B111 = torch.arange(case.B, device=device).view(-1, 1, 1, 1) % 2 == 1
        return odd_B111 | (torch.arange(S, device=device) < S - S // 4)
    if case.variant == "window":
        return masks.causal(T, S, device) & (_distance(T, S, device) < WINDOW)
    return None


def _distance(T: int, S: int, device: str | torch.device) -> Tensor:
    return torch.arange(T, device=device).unsqueeze(1) - torch.arange(S, device=device)


def rule(case: Problem, attn_mask: Tensor | None) -> Callable[..., Tensor] | None:
    """The same as a function of batch, head, query and key, as FlexAttention asks for it; None: all may meet."""
    if case.variant == "window":
        return lambda b, h, t, s: (t >= s) & (t - s < WINDOW)
    if case.is_causal:
        return lambda b, h, t, s: t >= s
    if attn_mask is None:
        return None
    if case.variant == "padding":
        return lambda b, h, t, s: attn_mask[b, 0, 0, s]
    return lambda b, h, t, s: attn_mask[t, s]


def pairs(case: Problem) -> float:
    """How many pairs of a query and a key the work is counted for: all, half of them if causal, or the window's."""
    T, S = case.T, case.keys
    if case.variant == "window":
        return float(sum(min(t + 1, WINDOW) for t in range(T)))
    return T * S / (2 if case.is_causal else 1)
