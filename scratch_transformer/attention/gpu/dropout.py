"""The weights that dropout keeps, written out: what the flash kernels decide on the fly."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from scratch_transformer.attention.gpu import launch
from scratch_transformer.attention.gpu.flash import threshold
from scratch_transformer.attention.gpu.tiles import dropout_keys, is_kept


@triton.jit
def _kept_weights_kernel(seed, kept, T, S, threshold, BLOCK_T: tl.constexpr, BLOCK_S: tl.constexpr):
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    s = tl.program_id(1) * BLOCK_S + tl.arange(0, BLOCK_S)
    row = tl.program_id(2).to(tl.int64) * T
    key_t, key_s = dropout_keys(tl.load(seed), row, t, s)
    keep = is_kept(key_t[:, None], key_s[None, :], threshold)
    pointers = kept + (row + t[:, None]) * S + s[None, :]
    tl.store(pointers, keep.to(tl.uint8), mask=(t[:, None] < T) & (s[None, :] < S))


@launch.on_its_device
def kept_weights(seed: Tensor, shape: tuple[int, int, int, int], dropout_p: float) -> Tensor:
    """Boolean, (B, H, T, S): True where a weight is kept."""
    B, H, T, S = shape
    kept = torch.empty(shape, dtype=torch.uint8, device=seed.device)
    grid = (triton.cdiv(T, 64), triton.cdiv(S, 64), B * H)
    _kept_weights_kernel[grid](seed, kept, T, S, threshold(dropout_p), BLOCK_T=64, BLOCK_S=64)
    return kept.bool()
