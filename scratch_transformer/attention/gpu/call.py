"""A call of attention as the GPU kernels take it, and the reasons why they can't take one. Needs no Triton."""

from __future__ import annotations

import functools
import importlib.util
import math
import os
import re
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from scratch_transformer import masks
from scratch_transformer.precision import cast_dtype

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
MAX_WIDTH = 256


def triton_version() -> str:
    """As its first file says: distributions have other names for AMD, Intel and Windows. "" where there is none."""
    spec = importlib.util.find_spec("triton")
    source = Path(spec.origin).read_text(encoding="utf-8") if spec and spec.origin else ""
    found = re.search(r"""^__version__ = ['"]([^'"]+)""", source, re.M)
    return found[1] if found else ""


# The package itself is only imported by kernels that run.
TRITON_VERSION = triton_version()
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


class Call(NamedTuple):
    """query (B, H, T, D), key (B, G, S, D), value (B, G, S, Dv), mask (B, H, T, S) or None, all of them views.

    Query t may see the keys t + lower … t + upper; None: no limit. scale is positive.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    lower: int | None
    upper: int | None
    scale: float


def unsupported(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0
) -> str | None:
    """Why no kernel here can run this call, or None. Meant for a reader: "float64 has no kernel"."""
    if not TRITON_VERSION:
        return "triton is not installed: pip install 'scratch-transformer[triton]'"
    return _unsupported_device(query.device) or _unsupported_tensors(query, key, value, attn_mask, dropout_p)


def _unsupported_device(device: torch.device) -> str | None:
    if INTERPRETED:
        return None
    if device.type != "cuda" or torch.version.hip is not None:
        return f"the kernels are for NVIDIA GPUs, and the tensors are on {device}"
    if capability(device) < (8, 0):
        return "the GPU is older than compute capability 8.0, the oldest that Triton compiles for"
    return None


@functools.cache
def capability(device: torch.device) -> tuple[int, int]:
    """Which generation of GPUs it is: asked once."""
    return torch.cuda.get_device_capability(device)


def _unsupported_tensors(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, dropout_p: float
) -> str | None:
    dtype = cast_dtype(query)
    widths = query.shape[-1], value.shape[-1]
    tensors = [x for x in (query, key, value, attn_mask) if x is not None]
    if dtype not in DTYPES:
        return f"{dtype} has no kernel; float16, bfloat16 and float32 have"
    if not all(1 <= width <= MAX_WIDTH for width in widths):
        return f"the kernels take heads of a width from 1 to {MAX_WIDTH}, not {widths}"
    if any(x.dim() > 4 for x in tensors):
        return "a tensor has more than four dimensions"
    if not all(is_within_reach(x.shape, x.stride()) for x in tensors):
        return "a head spans 2³¹ numbers or more, which 32-bit addresses don't reach"
    if attn_mask is not None and attn_mask.requires_grad and torch.is_grad_enabled():
        return "the kernels don't compute the gradient of attn_mask"
    if dropout_p == 1:
        return "dropout_p is 1: no weight is left to scale"
    return None


@functools.lru_cache(maxsize=1024)
def is_within_reach(shape: torch.Size, strides: tuple[int, ...]) -> bool:
    """Whether 32 bits can say how far apart two numbers of a head lie in memory."""
    return sum(size * abs(stride) for size, stride in zip(shape[-2:], strides[-2:], strict=True)) < 2**31


def prepare(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    *,
    bottom_right: bool = False,
    window: tuple[int | None, int | None] = (None, None),
) -> Call:
    """Broadcasts a call that is not `unsupported` to four dimensions. Nothing is copied but for autocast.

    is_causal, bottom_right, window: as in `masks.band`.
    """
    dtype = cast_dtype(query)
    query, key, value = (_four_dimensions(x, dtype) for x in (query, key, value))
    B = max(query.shape[0], key.shape[0], value.shape[0])
    G = max(key.shape[1], value.shape[1])
    H = max(query.shape[1], G)
    T, S = query.shape[2], key.shape[2]
    query, key, value = _expanded(query, B, H), _expanded(key, B, G), _expanded(value, B, G)
    if attn_mask is not None:
        attn_mask = attn_mask.expand(B, H, T, S)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else float(scale)
    if scale <= 0:  # the kernels take the largest product for the largest score
        query, scale = query * scale, 1.0

    lower, upper = masks.band(T, S, is_causal, bottom_right, window)
    return Call(query, key, value, attn_mask, lower, upper, scale)


def _four_dimensions(x: Tensor, dtype: torch.dtype) -> Tensor:
    x = x if x.dtype == dtype else x.to(dtype)  # what need not be done costs a microsecond each time
    return x if x.dim() == 4 else x[(None,) * (4 - x.dim())]


def _expanded(x: Tensor, batch: int, heads: int) -> Tensor:
    return x if x.shape[0] == batch and x.shape[1] == heads else x.expand(batch, heads, -1, -1)


def like(out: Tensor, query: Tensor) -> Tensor:
    """A result (B, H, T, Dv) in as many dimensions as query came with."""
    return out if query.dim() == 4 else out.reshape(*out.shape[4 - query.dim() :])
