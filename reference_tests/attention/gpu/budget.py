"""The doctrine's budget for low precision: our error against the float64 result, beside that of torch's own kernels."""

from __future__ import annotations

import torch
from torch.nn.functional import scaled_dot_product_attention as builtin

from scratch_transformer.attention.naive import naive_attention

OUTPUT_FACTOR, GRADIENT_FACTOR = 2, 3


def random_inputs(shapes, dtype, device):
    """Numbers that `dtype` holds exactly, wanting gradients."""
    return [torch.randn(shape, device=device).to(dtype).requires_grad_() for shape in shapes]


def with_gradients(attention, inputs, upstream, dtype):
    """The result and the gradients of query, key, value, computed in `dtype`."""
    inputs = [x.detach().to(dtype).requires_grad_() for x in inputs]
    result = attention(*inputs)
    return [result, *torch.autograd.grad(result, inputs, upstream.to(dtype))]


def assert_within_budget(ours, inputs, mask=None, kept=None, dropout_p=0.0, scale=None):
    """`ours(query, key, value)` and its gradients, against softmax(Q Kᵀ · scale + mask) V of all heads repeated.

    kept: the weights that dropout keeps. The builtin, which drops others, is then measured without dropout.
    """
    query, _, value = inputs
    upstream = torch.randn(*query.shape[:-1], value.shape[-1], device=query.device).to(query.dtype)

    def repeated(x):
        return x.repeat_interleave(query.shape[1] // x.shape[1], 1)

    def golden(q, k, v):
        if kept is None:
            return naive_attention(q, repeated(k), repeated(v), widened(mask), scale=scale)
        ones = torch.eye(k.shape[2], dtype=q.dtype, device=q.device).expand(*q.shape[:2], -1, -1)
        weights = naive_attention(q, repeated(k), ones, widened(mask), scale=scale)
        return weights * kept / (1 - dropout_p) @ repeated(v)

    def theirs(q, k, v):
        return builtin(q, repeated(k), repeated(v), mask, scale=scale)

    expected = with_gradients(golden, inputs, upstream, torch.float64)
    exact = expected if kept is None else with_gradients(
        lambda q, k, v: naive_attention(q, repeated(k), repeated(v), widened(mask), scale=scale),
        inputs, upstream, torch.float64,
    )  # fmt: skip
    own = with_gradients(theirs, inputs, upstream, query.dtype)
    actual = with_gradients(ours, inputs, upstream, query.dtype)
    names = ("output", "gradient of query", "gradient of key", "gradient of value")
    for name, a, e, o, x in zip(names, actual, expected, own, exact, strict=True):
        assert (a.shape, a.dtype) == (e.shape, query.dtype), name
        factor = OUTPUT_FACTOR if name == "output" else GRADIENT_FACTOR
        error, limit = largest(a - e), factor * largest(o - x) / (1 - dropout_p) + floor(e, query.dtype)
        assert error <= limit, f"{name}: error {error:.2g}, budget {limit:.2g}"


def widened(mask):
    return mask if mask is None or mask.dtype == torch.bool else mask.double()


def largest(x):
    return x.abs().nan_to_num(nan=float("inf")).max().item()


def floor(expected, dtype):
    """What rounding alone does to numbers of this size."""
    rounded = expected.to(dtype)
    return 2 * largest(rounded + 0.3 - 0.3 - rounded)
