"""The passes as one operator of torch's: differentiable, and opaque to torch.compile, which can't look into threads.

Where nobody but autograd looks, `attend` computes the same without the operator. Autocast needs no switching off: what
is told where to put its result is never cast, and all products are.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from scratch_transformer.attention.eager import Eager, differentiating
from scratch_transformer.attention.tiled.backward import Gradients, Saved, backward
from scratch_transformer.attention.tiled.forward import forward
from scratch_transformer.attention.tiled.problem import Problem
from scratch_transformer.precision import HALF_PRECISION

NAME = "scratch_transformer::tiled_attention"


def _forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    seed: Tensor | None,
    dropout_p: float,
    lower: int | None,
    upper: int | None,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """Attention, and the norms of its rows, as `forward` has them: (B, H, T, Dv) and (B, H, T, 2).

    query (B, H, T, D), key (B, K, S, D), value (B, K, S, Dv), mask broadcastable to (B, H, T, S), seed one number.
    """
    problem = Problem.of(query, key, value, mask, seed, dropout_p, lower, upper, scale)
    shape = problem.query.shape[:-1]
    out = query.new_empty(*query.shape[:-1], value.shape[-1])
    norms = problem.like.new_empty(*query.shape[:-1], 2)
    forward(problem, out.view(*shape, value.shape[-1]), norms.view(*shape, 2))
    return out, norms


def _backward(
    grad_out: Tensor,
    out: Tensor,
    norms: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    seed: Tensor | None,
    dropout_p: float,
    lower: int | None,
    upper: int | None,
    scale: float,
    with_mask: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of query, key, value, and of mask `with_mask`, which is empty without."""
    problem = Problem.of(query, key, value, mask, seed, dropout_p, lower, upper, scale)
    grad_mask = None
    if with_mask and problem.mask is not None:
        grad_mask = problem.like.new_zeros(problem.mask.shape)
    grads = [x.new_empty(x.shape) for x in (problem.query, problem.key, problem.value)]
    gradients = Gradients(grads[0], grads[1], grads[2], grad_mask)
    saved = Saved(*(x.view(*problem.query.shape[:-1], x.shape[-1]) for x in (grad_out.contiguous(), out, norms)))
    backward(problem, saved, gradients)
    of_mask = problem.like if grad_mask is None or mask is None else grad_mask.reshape(mask.shape).to(mask.dtype)
    return (
        gradients.query.reshape(query.shape),
        gradients.key.reshape(key.shape),
        gradients.value.reshape(value.shape),
        of_mask,
    )


# ---- The operators ----

tiled_attention = torch.library.custom_op(NAME, _forward, mutates_args=())
tiled_attention_backward = torch.library.custom_op(f"{NAME}_backward", _backward, mutates_args=())


@tiled_attention.register_fake
def _fake(query, key, value, mask, seed, dropout_p, lower, upper, scale):
    dtype = torch.float32 if query.dtype in HALF_PRECISION else query.dtype
    out = query.new_empty(*query.shape[:-1], value.shape[-1])
    return out, query.new_empty(*query.shape[:-1], 2, dtype=dtype)


@tiled_attention_backward.register_fake
def _fake_backward(grad_out, out, norms, query, key, value, mask, *arguments):
    of_mask = mask.new_empty(mask.shape) if arguments[-1] else norms.new_empty(0)
    return *(x.new_empty(x.shape) for x in (query, key, value)), of_mask


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    query, key, value, mask, seed, *ctx.numbers = inputs
    ctx.save_for_backward(*output, query, key, value, mask, seed)
    ctx.mark_non_differentiable(output[1])


def _gradients(ctx: Any, grad_out: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    with_mask = ctx.needs_input_grad[3]
    differentiate = differentiating(_backward, tiled_attention_backward, grad_out, ctx.saved_tensors[0])
    *gradients, of_mask = differentiate(grad_out, *ctx.saved_tensors, *ctx.numbers, with_mask)
    return *gradients, of_mask if with_mask else None, None, *(None for _ in ctx.numbers)


def _backward_twice(ctx: Any, *gradients: Tensor) -> None:
    raise RuntimeError(
        "attention: the tiled algorithm has no second derivative; the naive one has: "
        'scaled_dot_product_attention(..., algorithm="naive"), or within `with use_algorithm("naive"):`'
    )


tiled_attention.register_autograd(_gradients, setup_context=_setup_context)
tiled_attention_backward.register_autograd(_backward_twice)
attend = Eager(tiled_attention, _forward, _setup_context, _gradients, tensors=5)
