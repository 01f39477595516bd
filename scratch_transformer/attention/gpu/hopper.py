"""Flash attention for Hopper as two operators of torch: launches the kernels of `hopper_forward.py` and its neighbours.

Shapes as in `flash.py`: query (B, H, T, D), key and value (B, G, S, D). `logsumexp` is (B, H, rows) here, with T
rounded up to whole tiles, so that no kernel looks for the end of the queries.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from scratch_transformer.attention.eager import Eager, differentiating
from scratch_transformer.attention.gpu import hopper_work, launch
from scratch_transformer.attention.gpu.call import is_within_reach
from scratch_transformer.attention.gpu.delta import compute_delta
from scratch_transformer.attention.gpu.flash import no_second_derivative
from scratch_transformer.attention.gpu.hopper_forward import hopper_forward_kernel
from scratch_transformer.attention.gpu.hopper_grad_key_value import hopper_grad_key_value_kernel
from scratch_transformer.attention.gpu.hopper_grad_query import hopper_grad_query_kernel
from scratch_transformer.attention.gpu.hopper_grads import hopper_grads_kernel
from scratch_transformer.attention.gpu.hopper_tiles import BLOCK, CONSUMERS, ROWS

_BLOCK, _ROWS, _PIECES = BLOCK.value, ROWS.value, CONSUMERS.value
_L2 = 32 * 2**20  # bytes of keys and values that stay in the 50 MB of L2 cache while others pass through
# 12 warps: a producer and two consumers of four each. 65536 registers of a processor / (12 · 32), in steps of 8.
OPTIONS = {"num_warps": 4, "maxnreg": 168}
# How many tiles of what is walked along fit into shared memory, 227 KB, beside the tiles that stay.
SLOTS = {
    "forward": {64: 3, 128: 3},
    "grads": {64: 3, 128: 2},
    "grad_query": {64: 3, 128: 3},
    "grad_key_value": {64: 3, 128: 2},
}
# Whether the forward pass's consumers take turns, by the width of heads.
TURNS = {64: True, 128: True}


@launch.on_its_device
def _forward(query, key, value, is_causal, scale):
    query, key, value = _aligned(query), _aligned(key), _aligned(value)
    (B, H, T, D), S = query.shape, key.shape[2]
    out, logsumexp = _like(query), query.new_empty((B, H, _whole_tiles(T)), dtype=torch.float32)
    tiles = _whole_tiles(T) // _BLOCK
    pieces = hopper_work.dealt(*_work(tiles, B * H, key, is_causal), _programs(query, tiles), is_causal, query.device)
    hopper_forward_kernel[(pieces.shape[0],)](
        _tiles(query, _ROWS), _tiles(key, _BLOCK), _tiles(value, _BLOCK), _tiles(out, _ROWS), logsumexp, pieces,
        H, tiles * _BLOCK, S, pieces.shape[1] - 1, tiles, scale,
        GROUP=H // key.shape[1], CAUSAL=is_causal, D=D, SLOTS=SLOTS["forward"][D], TURNS=TURNS[D], **OPTIONS,
    )  # fmt: skip
    return out, logsumexp


@launch.on_its_device
def _backward(grad_out, query, key, value, is_causal, scale, out, logsumexp):
    """One walk with five products, or two with seven if sums must be in a fixed order."""
    grad_out, query, key, value = (_aligned(x) for x in (grad_out, query, key, value))
    delta = compute_delta(out, grad_out, logsumexp.shape[-1])
    two_walks = torch.are_deterministic_algorithms_enabled()
    return (_two_walks if two_walks else _one_walk)(query, key, value, grad_out, is_causal, scale, logsumexp, delta)


def _one_walk(query, key, value, grad_out, is_causal, scale, logsumexp, delta):
    dq = torch.zeros_like(_like(query), dtype=torch.float32)  # collects what all programs add
    dk, dv = _like(key), _like(value)
    hopper_grads_kernel[(_grid(key),)](
        _tiles(key, _ROWS, pieces=_PIECES), _tiles(value, _ROWS), _tiles(query, _ROWS), _tiles(grad_out, _ROWS),
        _tiles(dq, _ROWS, query.shape[-1] // _PIECES), _tiles(dk, _ROWS, pieces=_PIECES), _tiles(dv, _ROWS),
        logsumexp, delta, *_own_keys(query, key, is_causal, logsumexp), key.shape[2], scale,
        **_constants("grads", query, key, is_causal),
    )  # fmt: skip
    return dq.to(query.dtype), dk, dv


def _two_walks(query, key, value, grad_out, is_causal, scale, logsumexp, delta):
    grads = [_like(x) for x in (query, key, value)]
    q, do, k, v, dq, dk, dv = (_tiles(x, _ROWS) for x in (query, grad_out, key, value, *grads))
    (B, H, _, _), rows = query.shape, logsumexp.shape[-1]
    tiles = rows // _BLOCK
    pieces = hopper_work.dealt(*_work(tiles, B * H, key, is_causal), _programs(query, tiles), is_causal, query.device)
    hopper_grad_query_kernel[(pieces.shape[0],)](
        q, do, k, v, dq, logsumexp, delta, pieces, H, rows, key.shape[2], pieces.shape[1] - 1, tiles, scale,
        **_constants("grad_query", query, key, is_causal),
    )  # fmt: skip
    hopper_grad_key_value_kernel[(_grid(key),)](
        k, v, q, do, dk, dv, logsumexp, delta, *_own_keys(query, key, is_causal, logsumexp), scale,
        **_constants("grad_key_value", query, key, is_causal),
    )  # fmt: skip
    return tuple(grads)


# ---- The launch's arguments ----


def _constants(kernel, query, key, is_causal):
    group, D = query.shape[1] // key.shape[1], query.shape[-1]
    return {"GROUP": group, "CAUSAL": is_causal, "D": D, "SLOTS": SLOTS[kernel][D], **OPTIONS}


def _grid(key):
    return _whole_tiles(key.shape[2]) // _BLOCK * key.shape[0] * key.shape[1]


def _own_keys(query, key, is_causal, logsumexp):
    """order, G, rows, T and num_tiles of the kernels whose programs own keys."""
    (B, G), tiles = key.shape[:2], _whole_tiles(key.shape[2]) // _BLOCK
    order = hopper_work.order(*_work(tiles, B * G, query, is_causal), "first" if is_causal else None, key.device)
    return order, G, logsumexp.shape[-1], query.shape[2], tiles


def _work(tiles: int, heads: int, walked: Tensor, is_causal: bool) -> tuple[int, int, int]:
    """Tiles of a head, heads, heads in a section. Without a causal mask all pieces are equal: no order is needed."""
    bytes_per_head = 2 * walked.shape[2] * walked.shape[3] * walked.element_size()
    return tiles, heads, min(heads, max(1, _L2 // bytes_per_head)) if is_causal else 1


def _programs(query: Tensor, tiles: int) -> int:
    return min(launch.num_processors(query.device), tiles * query.shape[0] * query.shape[1])


def _whole_tiles(length: int) -> int:
    return (length + _BLOCK - 1) // _BLOCK * _BLOCK


def _like(x: Tensor) -> Tensor:
    return launch.side_by_side(x, x.shape[-1])


def _aligned(x: Tensor) -> Tensor:
    """x as the copy engine can address it: rows in one piece, and every stride and the start on 16 bytes."""
    fits = _fits(x.shape, x.stride()) and x.data_ptr() % 16 == 0
    return x if fits else x.clone(memory_format=torch.contiguous_format)


@functools.lru_cache(maxsize=1024)
def _fits(shape: torch.Size, strides: tuple[int, ...]) -> bool:
    stepped = [stride for stride, size in zip(strides[:3], shape, strict=False) if size > 1]
    in_steps = strides[3] == 1 and all(stride > 0 and stride % 8 == 0 for stride in stepped)
    return in_steps and is_within_reach(shape, strides)  # of `compute_delta`


def _tiles(x: Tensor, rows: int, columns: int = 0, pieces: int = 1) -> TensorDescriptor:
    """A descriptor of x (B, H, T, D) for copies of (1, 1, rows, columns), D of them unless given.

    pieces: in how many parts the columns are read from shared memory. The constructor is gone round: it would check,
    for some microseconds, what `_aligned` has seen to.
    """
    descriptor = object.__new__(TensorDescriptor)
    vars(descriptor).update(_geometry(x.shape, x.stride(), x.dtype, rows, columns or x.shape[3], pieces), base=x)
    return descriptor


@functools.lru_cache(maxsize=1024)
def _geometry(
    shape: torch.Size, strides: tuple[int, ...], dtype: torch.dtype, rows: int, columns: int, pieces: int
) -> dict[str, Any]:
    """Everything about a descriptor but its memory."""
    # rows of up to 128 bytes are mixed so that reading a column meets all banks; a piece is whole such rows
    row = min(128, columns * dtype.itemsize // pieces)
    layout = gl.NVMMASharedLayout(swizzle_byte_width=row, element_bitwidth=8 * dtype.itemsize, rank=4)
    # a dimension of size one is never stepped along, and its stride may be anything
    steps = [stride if size > 1 else 8 for stride, size in zip(strides[:3], shape, strict=False)]
    return {
        "shape": list(shape),
        "strides": [*steps, 1],
        "block_shape": [1, 1, rows, columns],
        "layout": layout,
        "padding": "zero",
    }


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
    B, H, T, _ = query.shape
    return _like(query), query.new_empty(B, H, _whole_tiles(T), dtype=torch.float32)


@hopper_backward.register_fake
def _(grad_out, query, key, value, is_causal, scale, out, logsumexp):
    return tuple(_like(x) for x in (query, key, value))


def _setup_context(ctx, inputs, output):
    query, key, value, ctx.is_causal, ctx.scale = inputs
    ctx.save_for_backward(query, key, value, *output)
    ctx.mark_non_differentiable(output[1])


def _gradients(ctx, grad_out, _):
    query, key, value, out, logsumexp = ctx.saved_tensors
    backward = differentiating(_backward, hopper_backward, grad_out, query)
    return *backward(grad_out, query, key, value, ctx.is_causal, ctx.scale, out, logsumexp), None, None


hopper_forward.register_autograd(_gradients, setup_context=_setup_context)
hopper_backward.register_autograd(no_second_derivative)
attend = Eager(hopper_forward, _forward, _setup_context, _gradients, tensors=3)
