"""What holds for scaled dot-product attention A(Q, K, V, M), A for the weights and A V for the output."""

from __future__ import annotations

import torch
from torch import Tensor

from scratch_transformer.conformance.draw import Draw
from scratch_transformer.conformance.invariants.setting import (
    DEFAULT,
    Build,
    Setting,
    difference,
    influence,
    named,
    order,
    response,
)


def _inputs(draw: Draw, s: Setting, keys: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
    S = s.S if keys is None else keys
    return draw.normal(s.B, s.H, s.T, s.D), draw.normal(s.B, s.H, S, s.D), draw.normal(s.B, s.H, S, s.D)


def _padding(draw: Draw, s: Setting) -> tuple[Tensor, Tensor]:
    """Which keys are blocked for every query, (B, 1, 1, S), and the mask that blocks them."""
    blocked = draw.padding(s.B, s.S, s.padding)[:, None, None, :]
    return blocked, draw.additive(blocked) if s.additive else ~blocked


def rows_sum_to_one(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """Σⱼ Aᵢⱼ = 1 and Aᵢⱼ ≥ 0, exactly 0 where blocked: A is the output for V = 1."""
    q, k, _ = _inputs(draw, s)
    blocked = draw.some(s.B, 1, s.T, s.S)
    identity = torch.eye(s.S, dtype=draw.dtype, device=draw.device).expand(s.B, s.H, s.S, s.S)
    weights = build()(q, k, identity, attn_mask=~blocked)
    leak = weights[blocked.expand_as(weights)].abs().sum().item()
    return max(difference(weights.sum(-1), 1.0), (-weights).max().item(), leak)


def weights_follow_the_scores(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """log Aᵢⱼ - log Aᵢₗ = (qᵢ · kⱼ - qᵢ · kₗ) / √d_k: the slope over the scores is 1 / √d_k."""
    q, k, _ = _inputs(draw, s)
    identity = torch.eye(s.S, dtype=draw.dtype, device=draw.device).expand(s.B, s.H, s.S, s.S)
    log = build()(q, k, identity).log()
    scores = (q.unsqueeze(-2) * k.unsqueeze(-3)).sum(-1) / s.D**0.5
    return difference(log - log.mean(-1, keepdim=True), scores - scores.mean(-1, keepdim=True))


def masked_keys_are_invisible(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """Nothing depends on keys and values that M blocks, however large, nor if all other scores are below -10⁴."""
    attend, (blocked, mask), (q, k, v) = build(), _padding(draw, s), _inputs(draw, s)
    hidden = blocked.transpose(-2, -1)  # (B, 1, S, 1)
    very_negative_scores = (torch.full_like(q, -1e5), 1 + 0.1 * k, v)
    return max(
        influence(lambda q, k, v: attend(q, k, v, attn_mask=mask), inputs, (None, hidden, hidden))
        for inputs in ((q, k, v), very_negative_scores)
    )


def the_future_is_invisible(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """With is_causal, rows 0 … i depend on the queries, keys and values 0 … i only, and are those of the prefix."""
    attend, inputs, cut = build(), _inputs(draw, s, keys=s.T), (s.T + 1) // 2
    later = (torch.arange(s.T, device=draw.device) >= cut).unsqueeze(-1)
    leak = influence(lambda *qkv: attend(*qkv, is_causal=True)[..., :cut, :], inputs, (later, later, later))
    prefix = attend(*(x[..., :cut, :] for x in inputs), is_causal=True)
    return max(leak, difference(attend(*inputs, is_causal=True)[..., :cut, :], prefix))


def the_present_is_visible(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """With is_causal, row 0 is value 0: a query may attend to its own position."""
    q, k, v = _inputs(draw, s, keys=s.T)
    return difference(build()(q, k, v, is_causal=True)[..., 0, :], v[..., 0, :])


def is_linear_in_the_values(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """A (a V + b U) = a A V + b A U."""
    attend, (q, k, v) = build(), _inputs(draw, s)
    u, mask = draw.normal(*v.shape), ~draw.some(s.T, s.S)
    mixed = attend(q, k, 0.7 * v - 1.9 * u, attn_mask=mask)
    return difference(mixed, 0.7 * attend(q, k, v, attn_mask=mask) - 1.9 * attend(q, k, u, attn_mask=mask))


def a_shift_of_all_keys_is_invisible(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """A(Q, K + c) = A(Q, K): softmax ignores q · c, the same for every key. So does the gradient."""
    attend, (q, k, v) = build(), _inputs(draw, s)
    c = draw.normal(s.B, s.H, 1, s.D)
    shifted, plain = response(lambda q, k, v: attend(q, k + c, v), q, k, v), response(attend, q, k, v)
    return max(difference(a, b) for a, b in zip(shifted, plain, strict=True))


def the_order_of_keys_is_irrelevant(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """A(Q, P K) P V = A(Q, K) V, with M's columns permuted alike; and permuted queries permute the rows."""
    attend, (q, k, v), mask = build(), _inputs(draw, s), ~draw.some(s.T, s.S)
    keys, queries = order(s.S, draw), order(s.T, draw)
    permuted = attend(q[..., queries, :], k[..., keys, :], v[..., keys, :], attn_mask=mask[queries][:, keys])
    return difference(permuted, attend(q, k, v, attn_mask=mask)[..., queries, :])


def heads_and_samples_stay_apart(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """A(Q, K, V)[b, h] = A(Q[b, h], K[b, h], V[b, h])."""
    attend, inputs = build(), _inputs(draw, s)
    alone = [attend(*one) for one in zip(*(x.flatten(0, 1) for x in inputs), strict=True)]
    return difference(attend(*inputs).flatten(0, 1), torch.stack(alone))


def rows_without_keys_are_zero(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """Row i = 0 where M blocks every key, and its query influences nothing; the other rows are as without it."""
    attend, (q, k, v) = build(), _inputs(draw, s)
    lost = (torch.arange(s.T, device=draw.device) == int(draw.ids(below=s.T))).unsqueeze(-1)  # (T, 1)
    mask = ~lost.expand(s.T, s.S)
    leak = influence(lambda q, k, v: attend(q, k, v, attn_mask=mask), (q, k, v), (lost, None, None))
    output, others = attend(q, k, v, attn_mask=mask), attend(q, k, v)
    return max(leak, difference(output, others.masked_fill(lost, 0.0)))


SDPA = named(
    rows_sum_to_one,
    weights_follow_the_scores,
    masked_keys_are_invisible,
    the_future_is_invisible,
    the_present_is_visible,
    is_linear_in_the_values,
    a_shift_of_all_keys_is_invisible,
    the_order_of_keys_is_irrelevant,
    heads_and_samples_stay_apart,
    rows_without_keys_are_zero,
)
