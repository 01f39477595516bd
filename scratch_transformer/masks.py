"""Attention masks: the one convention of this package, and the conversions from everybody else's.

A mask here is **boolean, True = this query may attend to this key**, of a shape that broadcasts to the scores
(..., T, S): T queries, S keys. A floating-point mask is *additive*: it is added to the scores, -inf blocks.

| where                                     | blocked is | conversion         |
|-------------------------------------------|------------|--------------------|
| this package, `F.scaled_dot_product_attention` | False | none               |
| `nn.MultiheadAttention`, `nn.Transformer` | True       | `from_blocked`     |
| the tutorials (1 = keep)                  | 0          | `from_keep`        |
| additive float masks                      | -inf       | `to_additive`      |
"""

from __future__ import annotations

import torch
from torch import Tensor


def causal(
    T: int, S: int | None = None, device: torch.device | str | None = None, *, bottom_right: bool = False
) -> Tensor:
    """Query i may attend to key j when j ≤ i: (T, S) boolean, S = T unless given.

    bottom_right: when j ≤ i + S - T, so that the last query sees the last key.
    The paper's "masking out all values which correspond to illegal connections" (Vaswani et al. 2017, section 3.2.3).
    """
    S = T if S is None else S
    return within(T, S, *band(T, S, True, bottom_right), device=device)


def band(
    T: int,
    S: int,
    is_causal: bool = False,
    bottom_right: bool = False,
    window: tuple[int | None, int | None] = (None, None),
) -> tuple[int | None, int | None]:
    """(lower, upper): query i may attend to the keys i + lower … i + upper; None: without limit.

    is_causal: to none after its own place; bottom_right: query i stands at key i + S - T instead of key i.
    window: to so many before its own place, and so many after it.
    """
    place = S - T if bottom_right else 0
    before, after = window
    if is_causal:
        after = 0 if after is None else min(after, 0)
    return None if before is None else place - before, None if after is None else place + after


def within(T: int, S: int, lower: int | None, upper: int | None, device: torch.device | str | None = None) -> Tensor:
    """Query i may attend to key j when i + lower ≤ j ≤ i + upper: (T, S) boolean."""
    distance = torch.arange(S, device=device) - torch.arange(T, device=device).unsqueeze(1)
    if lower is None:
        return distance <= upper if upper is not None else torch.ones_like(distance, dtype=torch.bool)
    return distance >= lower if upper is None else (distance >= lower) & (distance <= upper)


def padding(ids: Tensor, pad_id: int) -> Tensor:
    """Keys that are not padding: ids (B, S) -> (B, 1, 1, S) boolean, the same for every head and every query."""
    if ids.dim() != 2:
        raise ValueError(f"padding: ids must be (batch, length), but has shape {tuple(ids.shape)}")
    return (ids != pad_id)[:, None, None, :]


def from_blocked(mask: Tensor | None, name: str = "mask") -> Tensor | None:
    """A mask in `nn.MultiheadAttention`'s convention (boolean: True = blocked; float: additive) in this package's.

    Raises:
        AssertionError: the mask is neither boolean nor floating-point.
    """
    if mask is None or mask.is_floating_point():
        return mask
    if mask.dtype != torch.bool:
        raise AssertionError(f"only bool and floating types of {name} are supported, but got {mask.dtype}")
    return ~mask


def from_keep(mask: Tensor | None) -> Tensor | None:
    """A mask in the tutorials' convention (0 = blocked, anything else = keep, any dtype) in this package's.

    Raises:
        ValueError: the mask is additive: it has entries of -inf, which block, while 0 allows.
    """
    if mask is None:
        return None
    # looking at values has no place in a compiled graph, where this is skipped
    if mask.is_floating_point() and not torch.compiler.is_compiling() and bool((mask == float("-inf")).any()):
        raise ValueError("mask must say 1 = keep and 0 = block, but has entries of -inf: it is an additive mask")
    return mask != 0


def is_causal(blocked: Tensor) -> bool:
    """Whether a mask in `nn.MultiheadAttention`'s convention is the causal mask, boolean or float, (T, T)."""
    T = blocked.shape[-1]
    allowed = causal(T, device=blocked.device)
    if blocked.is_floating_point():
        return torch.equal(blocked, to_additive(allowed))  # the values; in whatever dtype
    return torch.equal(blocked, ~allowed)


def to_additive(mask: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """A boolean mask as a float mask: 0 where it allows, -inf where it blocks. A float mask is returned as it is."""
    if mask.is_floating_point():
        return mask
    zeros = torch.zeros(mask.shape, dtype=dtype or torch.get_default_dtype(), device=mask.device)
    return zeros.masked_fill(~mask, float("-inf"))


def combine(*masks: Tensor | None) -> Tensor | None:
    """The mask that blocks what any of `masks` blocks: boolean masks are and-ed, float masks are added."""
    combined = None
    for mask in masks:
        if combined is None or mask is None:
            combined = mask if combined is None else combined
        elif combined.dtype == mask.dtype == torch.bool:
            combined = combined & mask
        else:
            dtype = combined.dtype if combined.is_floating_point() else mask.dtype
            combined = to_additive(combined, dtype) + to_additive(mask, dtype)
    return combined


def append_open_keys(mask: Tensor | None, count: int) -> Tensor | None:
    """The mask for `count` further keys at the end to which every query may attend: (..., S) -> (..., S + count)."""
    if mask is None:
        return None
    shape = (*mask.shape[:-1], count)
    is_open = mask.new_ones(shape) if mask.dtype == torch.bool else mask.new_zeros(shape)
    return torch.cat([mask, is_open], dim=-1)


def apply(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Scores (..., T, S) with -inf where a boolean mask blocks, or plus a float mask."""
    if mask is None:
        return scores
    return scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
