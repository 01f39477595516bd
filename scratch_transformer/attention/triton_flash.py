"""Attention as portable GPU kernels written here in Triton: "flash attention", forward and backward.

softmax(Q Kᵀ · scale + mask) V in O(T + S) memory. Tiles of Q, K and V come on chip once, a tile of scores is used and
forgotten, and the backward pass computes it again. What `naive.py` computes, with float16, bfloat16 or float32 (IEEE)
products that are summed in float32; see `gpu/flash_forward.py` and `gpu/flash_grad_query.py` for the kernels.

Source: Dao et al. 2022, FlashAttention; Dao 2023, FlashAttention-2; the online softmax: Milakov and Gimelshein 2018.
"""

from __future__ import annotations

import torch
from torch import Tensor

from scratch_transformer.attention.gpu.call import like, prepare, unsupported

__all__ = ["kept_weights", "run", "unsupported"]


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
    deterministic: bool = True,
) -> Tensor:
    """Attention for a call that is not `unsupported`: (..., H, T, Dv). Arguments as in `scaled_dot_product_attention`.

    Args:
        query, key, value, attn_mask, dropout_p, is_causal, scale: as there. Key and value may have fewer heads.
        bottom_right: causal attention and the window count from the last key: query T - 1 stands at key S - 1.
        window: how many keys before and after its own place a query may see; None: all.
        deterministic: the gradient of query is summed in a fixed order, with seven matrix products instead of five.

    Dropout draws one number from torch's generator of the device, so it follows `torch.manual_seed`, and a captured
    CUDA graph drops other weights in each replay.
    """
    from scratch_transformer.attention.gpu.flash import attend

    call = prepare(query, key, value, attn_mask, is_causal, scale, bottom_right=bottom_right, window=window)
    seed = _draw_seed(query.device) if dropout_p > 0 else None
    out, _ = attend(*call[:4], seed, dropout_p, call.lower, call.upper, call.scale, deterministic)
    return like(out, query)


def kept_weights(shape: tuple[int, int, int, int], dropout_p: float, device: torch.device) -> Tensor:
    """Which weights of shape (B, H, T, S) a `run` in place of this call keeps: for tests. Advances the generator."""
    from scratch_transformer.attention.gpu.dropout import kept_weights

    return kept_weights(_draw_seed(device), shape, dropout_p)


def _draw_seed(device: torch.device) -> Tensor:
    return torch.randint(0, 2**62, (1,), device=device)
