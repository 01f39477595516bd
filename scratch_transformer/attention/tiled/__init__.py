"""Attention in O(T + S) memory from plain tensor operations, on a CPU as fast as the builtin, with its own backward.

softmax(Q Kᵀ · scale + mask) V, exactly, but never the whole T × S matrix of scores: a block of queries meets a tile of
keys at a time, and the backward pass computes the tiles again. What makes it fast, each explained where it is done:

- `problem.py`: tiles of several heads; blocks cut off at the causal diagonal and the window; no copies of shared heads;
- `forward.py`: no search for the highest score where a bound shows that none can overflow;
- `problem.py`: powers of 2 instead of e, which take half the time;
- `tile.py`: float16 and bfloat16 are widened a tile at a time: their products are slow on most CPUs, and inexact;
- `products.py`: bfloat16 products by the processor itself, where it has them, twice as fast as float32's: narrowed by
  oneDNN where no other thread computes, as `bystanders.py` tells, or rounded and summed up in float32;
- `few.py`: for few queries or keys, values that are not widened, and no sums to correct;
- `workers.py`: threads that take whole blocks where other processes would hold up operations spread over threads.

Source: Rabe and Staats 2021, Self-attention does not need O(n²) memory; Dao et al. 2022, FlashAttention.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from scratch_transformer import checks, masks
from scratch_transformer.attention.tiled import few, products
from scratch_transformer.attention.tiled.operator import attend
from scratch_transformer.attention.tiled.tile import keep_share
from scratch_transformer.precision import cast_dtype

__all__ = ["run", "unsupported"]


def unsupported(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0
) -> str | None:
    """Why this algorithm can't run this call, or None."""
    if not query.is_floating_point():
        return f"{query.dtype} is no floating-point dtype"
    if query.is_meta:
        return "tensors without data have no tiles"
    if 0 in (query.numel(), key.numel(), value.numel()):
        return "a tensor is empty"
    if key.dim() != query.dim() or key.shape[:-3] != query.shape[:-3] or key.shape[:-1] != value.shape[:-1]:
        return "query, key and value are broadcast"
    if query.dim() > 2 and query.shape[-3] % key.shape[-3] != 0:
        return "query is broadcast over the heads of key"
    if attn_mask is not None and not checks.broadcasts(attn_mask.shape[:-2], query.shape[:-2]):
        return "query is broadcast over the mask"
    if keep_share(dropout_p) == 0:
        return f"dropout_p is {dropout_p}: no weight is left to scale"
    if is_transformed():
        return "forward-mode derivatives and torch.func look into every operation"
    return None


def note(query: Tensor, key: Tensor, dropout_p: float) -> str:
    """What else there is to say of a call, in words; empty if nothing."""
    shared = query.shape[-3] // key.shape[-3] if query.dim() > 2 else 1
    rows = shared * query.shape[-2]
    said = products.advantage(query.dtype, query.device, rows)
    if few.suits(query.dtype, query.device, rows, key.shape[-2], dropout_p):
        return f"weights of few queries or keys are rounded to bfloat16; {said}"
    return said


def is_transformed() -> bool:
    """Whether somebody wants to see single operations: torch.func, forward-mode derivatives."""
    if torch.compiler.is_compiling():
        return False
    return torch._C._are_functorch_transforms_active() or torch.autograd.forward_ad._current_level >= 0


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
    """Attention for a call that is not `unsupported`: (..., H, T, Dv). Arguments as in `scaled_dot_product_attention`.

    Which weights dropout drops follows from one number drawn from torch's generator of the CPU.
    """
    lower, upper = masks.band(query.shape[-2], key.shape[-2], is_causal, bottom_right, window)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else float(scale)
    seed = torch.randint(2**62, (1,)) if dropout_p > 0 else None
    if attn_mask is not None:
        if query.dim() > 4 and attn_mask.dim() > 3:
            attn_mask = attn_mask.expand(*query.shape[:-3], *attn_mask.shape[-3:])
        attn_mask = _four_dimensions(attn_mask)
    q, k, v = (_four_dimensions(x.to(cast_dtype(x))) for x in (query, key, value))
    out, _ = attend(q, k, v, attn_mask, seed, dropout_p, lower, upper, scale)
    return out.reshape(*query.shape[:-1], value.shape[-1])


def _four_dimensions(x: Tensor) -> Tensor:
    """(..., H, T, D) as (B, H, T, D)."""
    return x.flatten(0, -4) if x.dim() > 4 else x[(None,) * (4 - x.dim())]
