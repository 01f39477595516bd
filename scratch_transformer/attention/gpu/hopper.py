"""Flash attention for Hopper as two operators of torch: launches the kernels of `hopper_forward.py` and its neighbours.

Shapes as in `flash.py`: query (B, H, T, D), key and value (B, G, S, D). `logsumexp` is (B, H, rows) here, with T
rounded up to whole tiles, so that no kernel looks for the end of the queries.
"""

from __future__ import annotations

import torch
import triton
from torch import Tensor
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from scratch_transformer.attention.gpu import launch
from scratch_transformer.attention.gpu.delta import compute_delta
from scratch_transformer.attention.gpu.flash import no_second_derivative
from scratch_transformer.attention.gpu.hopper_forward import hopper_forward_kernel
from scratch_transformer.attention.gpu.hopper_grad_key_value import hopper_grad_key_value_kernel
from scratch_transformer.attention.gpu.hopper_grad_query import hopper_grad_query_kernel
from scratch_transformer.attention.gpu.hopper_tiles import BLOCK, ROWS

_BLOCK, _ROWS = BLOCK.value, ROWS.value
_L2 = 32 * 2**20  # bytes of keys and values that stay in the 50 MB of L2 cache while others pass through
# 12 warps: a producer and two consumers of four each. 65536 registers of a processor / (12 · 32), in steps of 8.
OPTIONS = {"num_warps": 4, "maxnreg": 168}
# How many tiles of what is walked along fit into shared memory, 227 KB, beside the tiles that stay.
SLOTS = {"forward": {64: 3, 128: 2}, "grad_query": {64: 3, 128: 3}, "grad_key_value": {64: 3, 128: 2}}


@launch.on_its_device
def _forward(query, key, value, is_causal, scale):
    query, key, value = (_aligned(x) for x in (query, key, value))
    B, H, T, D = query.shape
    out = query.new_empty(B, T, H, D).transpose(1, 2)
    logsumexp = query.new_empty(B, H, _whole_tiles(T), dtype=torch.float32)
    pieces = _pieces(T, B * H, key, is_causal)
    hopper_forward_kernel[(_programs(pieces, query.device),)](
        _tiles(query, _ROWS), _tiles(key, _BLOCK), _tiles(value, _BLOCK), _tiles(out, _ROWS), logsumexp,
        H, logsumexp.shape[-1], key.shape[2], *pieces, scale,
        GROUP=H // key.shape[1], CAUSAL=is_causal, D=D, SLOTS=SLOTS["forward"][D], **OPTIONS,
    )  # fmt: skip
    return out, logsumexp


@launch.on_its_device
def _backward(grad_out, query, key, value, is_causal, scale, out, logsumexp):
    grad_out, query, key, value = (_aligned(x) for x in (grad_out, query, key, value))
    (B, H, T, D), (G, S) = query.shape, key.shape[1:3]
    rows = logsumexp.shape[-1]
    delta = compute_delta(out, grad_out, rows)
    grads = [x.new_empty(B, x.shape[2], x.shape[1], D).transpose(1, 2) for x in (query, key, value)]
    q, do, k, v, dq, dk, dv = (_tiles(x, _ROWS) for x in (query, grad_out, key, value, *grads))
    pieces = _pieces(T, B * H, key, is_causal)
    hopper_grad_query_kernel[(_programs(pieces, query.device),)](
        q, do, k, v, dq, logsumexp, delta, H, rows, S, *pieces, scale,
        GROUP=H // G, CAUSAL=is_causal, D=D, SLOTS=SLOTS["grad_query"][D], **OPTIONS,
    )  # fmt: skip
    pieces = _pieces(S, B * G, query, is_causal)
    hopper_grad_key_value_kernel[(pieces[0] * pieces[1],)](
        k, v, q, do, dk, dv, logsumexp, delta, G, rows, T, *pieces, scale,
        GROUP=H // G, CAUSAL=is_causal, D=D, SLOTS=SLOTS["grad_key_value"][D], **OPTIONS,
    )  # fmt: skip
    return tuple(grads)


# ---- The launch's arguments ----


def _aligned(x: Tensor) -> Tensor:
    """x as the copy engine can address it: rows in one piece, and every stride and the start on 16 bytes."""
    strides = [stride for stride, size in zip(x.stride()[:3], x.shape, strict=False) if size > 1]
    fits = x.stride(-1) == 1 and all(stride > 0 and stride % 8 == 0 for stride in strides)
    return x if fits and x.data_ptr() % 16 == 0 else x.contiguous()


def _tiles(x: Tensor, rows: int) -> TensorDescriptor:
    """A descriptor of x (B, H, T, D) for copies of (1, 1, rows, D)."""
    block = [1, 1, rows, x.shape[-1]]
    element = gl.float16 if x.dtype == torch.float16 else gl.bfloat16
    # a dimension of size one is never stepped along, and its stride may be anything
    strides = [stride if size > 1 else 8 for stride, size in zip(x.stride()[:3], x.shape, strict=False)]
    layout = gl.NVMMASharedLayout.get_default_for(block, element)
    return TensorDescriptor(x, list(x.shape), [*strides, 1], block, layout)


def _whole_tiles(length: int) -> int:
    return triton.cdiv(length, _BLOCK) * _BLOCK


def _pieces(length: int, heads: int, walked: Tensor, is_causal: bool) -> tuple[int, int, int]:
    """(tiles of a head, heads, heads in a section) for `hopper_tiles.place`.

    Without a causal mask all pieces are equally long: no order is needed, and a section is one head.
    """
    bytes_per_head = 2 * walked.shape[2] * walked.shape[3] * walked.element_size()
    section = max(1, _L2 // bytes_per_head) if is_causal else 1
    return triton.cdiv(length, _BLOCK), heads, min(section, heads)


def _programs(pieces: tuple[int, int, int], device: torch.device) -> int:
    return min(launch.num_processors(device), pieces[0] * pieces[1])


# ---- The operators ----

hopper_forward = torch.library.custom_op(
    "scratch_transformer::hopper_forward",
    _forward,
    mutates_args=(),
    schema="(Tensor query, Tensor key, Tensor value, bool is_causal, float scale) -> (Tensor, Tensor)",
)
hopper_backward = torch.library.custom_op(
    "scratch_transformer::hopper_backward",
    _backward,
    mutates_args=(),
    schema="(Tensor grad_out, Tensor query, Tensor key, Tensor value, bool is_causal, float scale, Tensor out, "
    "Tensor logsumexp) -> (Tensor, Tensor, Tensor)",
)


@hopper_forward.register_fake
def _(query, key, value, is_causal, scale):
    B, H, T, D = query.shape
    out = query.new_empty(B, T, H, D).transpose(1, 2)
    return out, query.new_empty(B, H, (T + _BLOCK - 1) // _BLOCK * _BLOCK, dtype=torch.float32)


@hopper_backward.register_fake
def _(grad_out, query, key, value, is_causal, scale, out, logsumexp):
    return tuple(x.new_empty(x.shape[0], *x.shape[2:0:-1], x.shape[3]).transpose(1, 2) for x in (query, key, value))


def _setup_context(ctx, inputs, output):
    query, key, value, ctx.is_causal, ctx.scale = inputs
    ctx.save_for_backward(query, key, value, *output)
    ctx.mark_non_differentiable(output[1])


def _gradients(ctx, grad_out, _):
    query, key, value, out, logsumexp = ctx.saved_tensors
    grads = hopper_backward(grad_out, query, key, value, ctx.is_causal, ctx.scale, out, logsumexp)
    return *grads, None, None


hopper_forward.register_autograd(_gradients, setup_context=_setup_context)
hopper_backward.register_autograd(no_second_derivative)
