"""Flash attention as two operators of torch, forward and backward: compiled graphs see them whole.

Tensors have four dimensions here, query (B, H, T, D), key (B, G, S, D), value (B, G, S, Dv): H / G heads share a key.
The band is (lower, upper), None where there is no limit: query t sees the keys t + lower … t + upper. The sum of the
exponentials is handed from forward to backward as `logsumexp`, (B, H, T, 1), in base 2; with an additive mask it is
(B, H, T, 2): the largest score, and what is left without it.
"""

from __future__ import annotations

import functools

import torch
import triton
from torch import Tensor

from scratch_transformer.attention.eager import Eager, differentiating
from scratch_transformer.attention.gpu import launch, tiles
from scratch_transformer.attention.gpu.call import is_within_reach
from scratch_transformer.attention.gpu.delta import compute_delta
from scratch_transformer.attention.gpu.flash_forward import flash_forward_kernel
from scratch_transformer.attention.gpu.flash_grad_key_value import grad_key_value_kernel
from scratch_transformer.attention.gpu.flash_grad_query import grad_query_kernel

_CALL = (
    "Tensor query, Tensor key, Tensor value, Tensor? mask, Tensor? seed, float dropout_p, int? lower, int? upper, "
    "float scale, bool deterministic"
)


@launch.on_its_device
def _forward(query, key, value, mask, seed, dropout_p, lower, upper, scale, deterministic):
    query, key, value = (rows(x) for x in (query, key, value))
    B, H, T, _ = query.shape
    out, logsumexp = launch.side_by_side(query, value.shape[-1]), _new_logsumexp(query, mask)
    if out.numel():
        options = _options("forward", query, key, value, mask, dropout_p, lower, upper)
        flash_forward_kernel[(triton.cdiv(T, options["BLOCK_T"]) * B * H,)](
            query, key, value, *mask_and_seed(query, mask, seed), out, logsumexp,
            *query.stride()[:3], *key.stride()[:3], *value.stride()[:3], *mask_strides(mask), *out.stride()[:3],
            *_numbers(query, key, dropout_p, lower, upper, scale),
            **options, RAGGED=key.shape[2] % options["BLOCK_S"] != 0,
        )  # fmt: skip
    return out, logsumexp


@launch.on_its_device
def _backward(grad_out, query, key, value, mask, seed, dropout_p, lower, upper, scale, deterministic, out, logsumexp):
    grad_out, query, key, value, out = (rows(x) for x in (grad_out, query, key, value, out))
    if not is_within_reach(grad_out.shape, grad_out.stride()):  # those of the call are
        grad_out = grad_out.contiguous()
    B, H, T, _ = query.shape
    grad_query = torch.empty_like(query) if deterministic else torch.zeros_like(query, dtype=torch.float32)
    grad_key, grad_value = torch.empty_like(key), torch.empty_like(value)
    if not query.numel() or not key.numel():
        return torch.zeros_like(query), torch.zeros_like(key), torch.zeros_like(value)
    inputs = (query, key, value, *mask_and_seed(query, mask, seed), grad_out, logsumexp)
    strides = (
        *query.stride()[:3], *key.stride()[:3], *value.stride()[:3], *mask_strides(mask), *grad_out.stride()[:3],
        *grad_query.stride()[:3],
    )  # fmt: skip
    numbers = _numbers(query, key, dropout_p, lower, upper, scale)
    delta = compute_delta(out, grad_out, T)
    if deterministic:
        options = _options("grad_query", query, key, value, mask, dropout_p, lower, upper)
        grid = (triton.cdiv(T, options["BLOCK_T"]) * B * H,)
        grad_query_kernel[grid](*inputs, delta, grad_query, *strides, *numbers, **options)
    options = _options("grad_key_value", query, key, value, mask, dropout_p, lower, upper)
    grid = (triton.cdiv(key.shape[2], options["BLOCK_S"]) * B * key.shape[1],)
    grad_key_value_kernel[grid](
        *inputs, delta, grad_query, grad_key, grad_value, *strides, *grad_key.stride()[:3], *grad_value.stride()[:3],
        *numbers, **options, ADD_GRAD_QUERY=not deterministic,
    )  # fmt: skip
    return grad_query.to(query.dtype), grad_key, grad_value


def _new_logsumexp(query, mask):
    parts = 2 if mask_kind(mask) == tiles.ADDITIVE.value else 1
    return query.new_empty(*query.shape[:3], parts, dtype=torch.float32)


# ---- The launch's arguments ----


def rows(x: Tensor) -> Tensor:
    """x with each row of numbers in one piece."""
    return x if x.stride(-1) == 1 else x.contiguous()


def _options(kernel, query, key, value, mask, dropout_p, lower, upper):
    group, widths = query.shape[1] // key.shape[1], (query.shape[-1], value.shape[-1])
    shared_memory = launch.shared_memory(query.device)
    kind = mask_kind(mask), lower is not None, upper is not None, dropout_p > 0
    return _constants(kernel, group, *widths, query.dtype, shared_memory, *kind)


@functools.lru_cache(maxsize=1024)
def _constants(kernel, group, D, Dv, dtype, shared_memory, kind_of_mask, has_lower, has_upper, has_dropout):
    """The same dictionary for the same kind of call: nobody changes it."""
    banded = has_lower or (kernel == "grad_key_value" and group > 1)
    masked = kind_of_mask != tiles.NO_MASK.value or has_dropout
    needs = launch.MASKED if masked else launch.BANDED if banded else launch.PLAIN
    chosen = launch.tiles(kernel, max(D, Dv), dtype, shared_memory, needs)
    return {
        "GROUP": group,
        "D": D,
        "DV": Dv,
        "BLOCK_D": launch.block_width(D),
        "BLOCK_DV": launch.block_width(Dv),
        "MASK": kind_of_mask,
        "HAS_LOWER": has_lower,
        "HAS_UPPER": has_upper,
        "DROPOUT": has_dropout,
        # torch's float32 products are IEEE products unless the user says otherwise; Triton's would be TF32
        "PRECISION": "ieee" if dtype == torch.float32 else "tf32",
        **chosen.options(),
    }


def mask_kind(mask):
    """Which branch of the kernels a mask takes."""
    if mask is None:
        return tiles.NO_MASK.value
    return tiles.BOOLEAN.value if mask.dtype == torch.bool else tiles.ADDITIVE.value


def mask_and_seed(query, mask, seed):
    """Pointers for both, to anything where there is none: such a kernel doesn't look at it."""
    if mask is not None and mask.dtype == torch.bool:
        mask = mask.view(torch.uint8)
    return query if mask is None else mask, query if seed is None else seed


def mask_strides(mask):
    """Of (B, H, T, S)."""
    return (0, 0, 0, 0) if mask is None else mask.stride()


def _numbers(query, key, dropout_p, lower, upper, scale):
    """H, T, S, lower, upper, scale, threshold, keep_scale."""
    return (
        query.shape[1], query.shape[2], key.shape[2], lower or 0, upper or 0, scale, threshold(dropout_p),
        1 / (1 - dropout_p),
    )  # fmt: skip


def threshold(dropout_p: float) -> int:
    """What a random word of 31 bits must reach for its weight to be kept."""
    return round(dropout_p * 2**31)


# ---- The operators ----

flash_forward = torch.library.custom_op(
    "scratch_transformer::flash_forward", _forward, mutates_args=(), schema=f"({_CALL}) -> (Tensor, Tensor)"
)
flash_backward = torch.library.custom_op(
    "scratch_transformer::flash_backward",
    _backward,
    mutates_args=(),
    schema=f"(Tensor grad_out, {_CALL}, Tensor out, Tensor logsumexp) -> (Tensor, Tensor, Tensor)",
)


@flash_forward.register_fake
def _(query, key, value, mask, seed, dropout_p, lower, upper, scale, deterministic):
    return launch.side_by_side(query, value.shape[-1]), _new_logsumexp(query, mask)


@flash_backward.register_fake
def _(grad_out, query, key, value, *rest):
    return torch.empty_like(rows(query)), torch.empty_like(rows(key)), torch.empty_like(rows(value))


def _setup_context(ctx, inputs, output):
    query, key, value, mask, seed, *ctx.rest = inputs
    ctx.save_for_backward(query, key, value, mask, seed, *output)
    ctx.mark_non_differentiable(output[1])


def _gradients(ctx, grad_out, _):
    query, key, value, mask, seed, out, logsumexp = ctx.saved_tensors
    backward = differentiating(_backward, flash_backward, grad_out, query)
    grads = backward(grad_out, query, key, value, mask, seed, *ctx.rest, out, logsumexp)
    return *grads, *(None,) * (2 + len(ctx.rest))


flash_forward.register_autograd(_gradients, setup_context=_setup_context)
attend = Eager(flash_forward, _forward, _setup_context, _gradients, tensors=5)


def no_second_derivative(ctx, *gradients):
    """The backward pass of the backward pass."""
    raise RuntimeError(
        "attention: the GPU kernels have no second derivative; the naive algorithm has: "
        'scaled_dot_product_attention(..., algorithm="naive")'
    )


flash_backward.register_autograd(no_second_derivative)
