"""Attention of one or a few queries to a long cache of keys and values, as in generating text token by token.

softmax(Q Kᵀ · scale + mask) V for T · H / G ≤ 64, G the number of heads of key and value. The time is that of reading K
and V once; see `gpu/split_kv.py` for the kernels.

Source: Dao, Haziza, Massa and Sizov 2023, Flash-Decoding; grouped queries: Ainslie et al. 2023.
"""

from __future__ import annotations

import torch
from torch import Tensor

from scratch_transformer.attention.gpu import call
from scratch_transformer.attention.gpu.call import prepare

__all__ = ["run", "unsupported"]

MAX_ROWS = 64


def unsupported(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0
) -> str | None:
    """Why this kernel can't run this call, or None."""
    heads = (x.shape[-3] if x.dim() > 2 else 1 for x in (query, key, value))
    query_heads, *shared_heads = heads
    rows = query.shape[-2] * query_heads // max(1, *shared_heads)
    if rows > MAX_ROWS:
        return f"{rows} query rows share each key; split keys pay for up to {MAX_ROWS}"
    if dropout_p > 0:
        return "the kernel for few queries has no dropout"
    if torch.is_grad_enabled() and any(x.requires_grad for x in (query, key, value)):
        return "the kernel for few queries has no backward pass"
    return call.unsupported(query, key, value, attn_mask, dropout_p)


def run(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    *,
    bottom_right: bool = False,
    window: tuple[int | None, int | None] = (None, None),
) -> Tensor:
    """Attention for a call that is not `unsupported`: (..., H, T, Dv). Arguments as in `triton_flash.run`."""
    from scratch_transformer.attention.gpu.split_kv import attend

    out = attend(*prepare(query, key, value, attn_mask, is_causal, scale, bottom_right=bottom_right, window=window))
    return call.like(out, query)
