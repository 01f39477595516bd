"""Attention for Hopper GPUs (H100, H200), written here in Gluon: asynchronous copies, products and softmax overlap.

softmax(Q Kᵀ · scale) V, dense or causal, for heads of width 64 or 128 in float16 or bfloat16, forward and backward; all
else is for `triton_flash.py`, and `unsupported` and `falls_back` say why. See `gpu/hopper_forward.py` for how the
kernels work. The gradients of queries are added up in no fixed order, as PyTorch's own kernels do it, unless
`torch.use_deterministic_algorithms` asks for one: then two walks compute seven products instead of five.

They have been compiled, and executed in a simulator of Gluon, but not on a GPU yet. "auto" prefers them where they can
run; with SCRATCH_TRANSFORMER_ATTENTION=triton in the environment it leaves them out.

Source: Shah et al. 2024, FlashAttention-3.
"""

from __future__ import annotations

import torch
from torch import Tensor

from scratch_transformer import masks
from scratch_transformer.attention import triton_flash
from scratch_transformer.attention.gpu import call
from scratch_transformer.precision import cast_dtype

__all__ = ["falls_back", "run", "unsupported"]

WIDTHS = (64, 128)
# Gluon is experimental and changes from release to release: the kernels have been compiled with these.
TRITON = ("3.6.", "3.7.")
Window = tuple[int | None, int | None]


def unsupported(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0
) -> str | None:
    """Why this algorithm can't run this call, or None."""
    return (
        call.unsupported(query, key, value, attn_mask, dropout_p)
        or _unsupported_machine(query.device)
        or _unsupported_tensors(query, key, value, attn_mask, dropout_p)
    )


def _unsupported_machine(device: torch.device) -> str | None:
    if device.type != "cuda" or call.capability(device) != (9, 0):
        return "the GPU is not a Hopper"
    if not call.TRITON_VERSION.startswith(TRITON):
        return f"the kernels are written for Triton {'x and '.join(TRITON)}x, and {call.TRITON_VERSION} is installed"
    return None


def _unsupported_tensors(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, dropout_p: float
) -> str | None:
    dtype = cast_dtype(query)
    if dtype not in (torch.float16, torch.bfloat16):
        return f"the kernels are for float16 and bfloat16, not {dtype}"
    if query.shape[-1] not in WIDTHS or value.shape[-1] != query.shape[-1]:
        return f"the kernels are for heads of width 64 or 128, not {query.shape[-1]} and {value.shape[-1]}"
    if attn_mask is not None or dropout_p > 0:
        return "the kernels have no mask and no dropout"
    if not query.numel() or not key.numel():
        return "there is nothing to compute"
    return None


def falls_back(
    T: int, S: int, is_causal: bool, bottom_right: bool = False, window: Window = (None, None)
) -> str | None:
    """Why `run` hands a call with T queries and S keys on to the portable kernel, or None if it doesn't."""
    lower, upper = masks.band(T, S, is_causal, bottom_right, window)
    if lower is not None or upper not in (None, 0):
        return "the kernels have no window, and no causal mask but the one from the top left"
    if upper == 0 and T != S:
        return f"causal attention needs as many queries as keys, not {T} and {S}"
    return None


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
    window: Window = (None, None),
) -> Tensor:
    """Attention for a call that is not `unsupported`: (..., H, T, D). Arguments as in `scaled_dot_product_attention`.

    The portable kernel runs where `falls_back` gives a reason.
    """
    if falls_back(query.shape[-2], key.shape[-2], is_causal, bottom_right, window) is not None:
        return triton_flash.run(
            query, key, value, is_causal=is_causal, scale=scale, bottom_right=bottom_right, window=window
        )
    from scratch_transformer.attention.gpu.hopper import attend

    ours = call.prepare(query, key, value, None, is_causal, scale, bottom_right=bottom_right, window=window)
    out, _ = attend(ours.query, ours.key, ours.value, ours.upper == 0, ours.scale)
    return call.like(out, query)
