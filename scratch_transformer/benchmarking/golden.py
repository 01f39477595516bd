"""Attention's result in float64, one head at a time, and how to tell dropout's scatter from a mistake."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from scratch_transformer.attention import naive
from scratch_transformer.benchmarking.problem import Inputs, Problem


@dataclass(frozen=True)
class Golden:
    """O without dropout, then dQ, dK, dV if the case goes backward.

    variance: of each number of O and dV, if weights are dropped; by the place in `tensors`.
    """

    tensors: tuple[Tensor, ...]
    variance: dict[int, Tensor]


def golden(case: Problem, inputs: Inputs) -> Golden:
    """By the plain equations, with one head's T × S matrix in memory at a time."""
    named = {"out": inputs.query, "query": inputs.query, "key": inputs.key, "value": inputs.value}
    sums = {name: torch.zeros_like(x, dtype=torch.float64) for name, x in named.items()}
    variance = {name: torch.zeros_like(sums[name]) for name in ("out", "value")} if case.dropout_p else {}
    for b, h in _heads(case):
        g = h * case.groups // case.H
        q, k, v = (
            x.detach().double().requires_grad_() for x in (inputs.query[b, h], inputs.key[b, g], inputs.value[b, g])
        )
        weights_TS = naive.attention_weights(q, k, _part(inputs.attn_mask, b, h), case.is_causal)
        out_TD, upstream_TD = weights_TS @ v, inputs.upstream[b, h].double()
        gradients = torch.autograd.grad(out_TD, (q, k, v), upstream_TD) if case.direction != "forward" else (0, 0, 0)
        parts = {"out": (h, out_TD.detach()), "query": (h, gradients[0]), "key": (g, gradients[1])}
        for name, (head, part) in {**parts, "value": (g, gradients[2])}.items():
            sums[name][b, head] += part
        if case.dropout_p:
            spread_TS = weights_TS.detach() ** 2 * case.dropout_p / (1 - case.dropout_p)
            variance["out"][b, h] += spread_TS @ v.detach() ** 2
            variance["value"][b, g] += spread_TS.T @ upstream_TD**2
    names = {"forward": ["out"], "backward": ["query", "key", "value"]}.get(case.direction, list(sums))
    places = {names.index(name): x for name, x in variance.items() if name in names}
    return Golden(tuple(sums[name] for name in names), places)


def _heads(case: Problem) -> Iterator[tuple[int, int]]:
    return ((b, h) for b in range(case.B) for h in range(case.H))


def _part(attn_mask: Tensor | None, b: int, h: int) -> Tensor | None:
    """The mask of one head, of a mask that may lack the first dimensions or have one in place of all."""
    if attn_mask is None or attn_mask.dim() == 2:
        return attn_mask
    return attn_mask[b % attn_mask.shape[0], h % attn_mask.shape[1]]


def scatter(outcome: tuple[Tensor, ...], right: Golden) -> float:
    """By how many standard errors the results' mean or mean square is not what dropout makes it, at worst.

    O and dV are linear in the weights. So dropout leaves their means as they are, and gives each number a variance that
    is known: Σ (weight · value)² p / (1 − p). The numbers of one row share their dropped weights, and count as one.
    """
    if not all(bool(x.isfinite().all()) for x in outcome):
        return math.inf
    worst = 0.0
    for place, variance in right.variance.items():
        mean = right.tensors[place]
        deviation = outcome[place].detach().double() - mean
        bias = (deviation * mean).sum(dim=-1).flatten()
        squares = (deviation**2 / variance).mean(dim=-1).flatten() - 1
        worst = max(worst, _standard_errors(bias, 0), _standard_errors(squares, 0.02))  # rounding adds a little
    return worst


def _standard_errors(samples: Tensor, floor: float) -> float:
    """How far their mean is from zero, in units of its uncertainty."""
    uncertainty = samples.std() / math.sqrt(len(samples)) + floor
    return abs((samples.mean() / uncertainty).item())
