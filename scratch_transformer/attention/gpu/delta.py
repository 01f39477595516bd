"""δ = Σ dO ⊙ O, one number per query: what every backward pass begins with. See `flash_grad_query.py`."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from scratch_transformer.attention.gpu import launch
from scratch_transformer.attention.gpu.tiles import load_tile


@triton.jit
def delta_kernel(
    out,
    grad_out,
    delta,
    stride_ob,
    stride_oh,
    stride_ot,
    stride_gb,
    stride_gh,
    stride_gt,
    H,
    T,
    rows,
    DV: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_DV: tl.constexpr,
):
    """δ = Σ dO ⊙ O, the dot product of each query's output and its gradient: (B, H, rows), zero beyond T."""
    tiles = tl.cdiv(rows, BLOCK_T)
    head = tl.program_id(0) // tiles
    b = (head // H).to(tl.int64)
    h = (head % H).to(tl.int64)
    t = (tl.program_id(0) % tiles) * BLOCK_T + tl.arange(0, BLOCK_T)
    dv = tl.arange(0, BLOCK_DV)
    o = load_tile(out + b * stride_ob + h * stride_oh, t, stride_ot, dv, T, DV, True, True)
    do = load_tile(grad_out + b * stride_gb + h * stride_gh, t, stride_gt, dv, T, DV, True, True)
    tl.store(delta + head.to(tl.int64) * rows + t, tl.sum(o.to(tl.float32) * do.to(tl.float32), 1), mask=t < rows)


def compute_delta(out: Tensor, grad_out: Tensor, rows: int) -> Tensor:
    """δ, the dot products of results and their gradients: (B, H, rows), float32, zero where there is no query."""
    B, H, T, Dv = out.shape
    delta = out.new_empty(B, H, rows, dtype=torch.float32)
    delta_kernel[(triton.cdiv(rows, 64) * B * H,)](
        out, grad_out, delta, *out.stride()[:3], *grad_out.stride()[:3], H, T, rows,
        DV=Dv, BLOCK_T=64, BLOCK_DV=launch.block_width(Dv),
    )  # fmt: skip
    return delta
