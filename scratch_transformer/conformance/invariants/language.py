"""What holds for the parts of a language model: rotary positions, gated feed-forward, causal self-attention."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from scratch_transformer.conformance.draw import Draw
from scratch_transformer.conformance.invariants.layers import splits_the_identity
from scratch_transformer.conformance.invariants.setting import (
    DEFAULT,
    Build,
    Setting,
    difference,
    influence,
    named,
    order,
    prepared,
)
from scratch_transformer.nn import KeyValueCache


def is_open_by_the_odds(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """f(x) = (x - f(x)) exp(x): the share that passes, σ(x), has the odds exp(x). SiLU."""
    x = draw.normal(s.B, s.T, s.E, scale=2.0)
    y: Tensor = build()(x)
    return difference(y, (x - y) * x.exp())


# ---- Rotary positions R(x, p) ----


def _rotary(draw: Draw, s: Setting) -> tuple[Tensor, Tensor]:
    """Features (B, H, T, 2D), and positions (B, T)."""
    return draw.normal(s.B, s.H, s.T, 2 * s.D), draw.ids(s.B, s.T, below=1000)


def keeps_lengths(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """|R(x, p)| = |x| for every token."""
    for_each = []
    for interleaved in (False, True):
        x, positions = _rotary(draw, s)
        turned = build(d=2 * s.D, interleaved=interleaved)(x, positions)
        for_each.append(difference(turned.norm(dim=-1), x.norm(dim=-1)))
    return max(for_each)


def scores_depend_on_distances_only(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """R(q, p) · R(k, p') = R(q, p + c) · R(k, p' + c)."""
    rotate, (q, p) = build(d=2 * s.D), _rotary(draw, s)
    k, c = draw.normal(*q.shape), 1 + int(draw.ids(below=100))

    def scores(shift: int) -> Tensor:
        return (rotate(q, p + shift).unsqueeze(-2) * rotate(k, p + shift).unsqueeze(-3)).sum(-1)

    return difference(scores(c), scores(0))


def turns_add_up(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """R(R(x, p), p') = R(x, p + p'), and R(x, 0) = x."""
    rotate, (x, p) = build(d=2 * s.D), _rotary(draw, s)
    more = draw.ids(s.B, s.T, below=1000)
    return max(difference(rotate(rotate(x, p), more), rotate(x, p + more)), difference(rotate(x, p * 0), x))


def the_first_pair_turns_fastest(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """R(x, 1) turns pair i by base^(-2i/d): the first by one radian, the last by nearly 1/base."""
    d, base = 2 * s.D, 50.0
    unit = torch.zeros(1, 1, 1, d, dtype=draw.dtype, device=draw.device)
    unit[..., : d // 2] = 1  # of every pair of halves the first
    turned = build(d=d, base=base)(unit, torch.ones(1, dtype=torch.long, device=draw.device))
    angles = torch.atan2(turned[..., d // 2 :], turned[..., : d // 2])
    exponents = torch.arange(d // 2, dtype=draw.dtype, device=draw.device) * 2 / d
    return difference(angles.log(), -exponents.expand_as(angles) * torch.tensor(base, dtype=draw.dtype).log())


# ---- Gated feed-forward ----


def _gated(build: Build, draw: Draw, s: Setting) -> tuple[Any, Tensor]:
    f = prepared(build(d_model=s.E, d_ff=s.FF, bias=s.bias), draw)
    return f, draw.normal(s.B, s.T, s.E)


@torch.no_grad()
def is_linear_in_the_upper_path(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """With c W_up and c b_up, f(x) - b_down is c times as large: no activation there."""
    f, x = _gated(build, draw, s)
    offset = f.down_proj.bias if s.bias else torch.zeros_like(x)
    before = f(x) - offset
    for parameter in f.up_proj.parameters():
        parameter.mul_(-3.0)
    return difference(f(x) - offset, -3 * before)


@torch.no_grad()
def the_order_of_hidden_units_is_irrelevant(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """The rows of W_gate and W_up and the columns of W_down, permuted alike, change nothing."""
    f, x = _gated(build, draw, s)
    before, p = f(x), order(s.FF, draw)
    for parameter in (*f.gate_proj.parameters(), *f.up_proj.parameters()):
        parameter.copy_(parameter[p].clone())
    f.down_proj.weight.copy_(f.down_proj.weight[:, p].clone())
    return difference(f(x), before)


# ---- Causal self-attention ----


def _attention(build: Build, draw: Draw, s: Setting, **options: Any) -> tuple[Any, Tensor]:
    """With two queries to a key, a width of its own, and an input (B, T, E)."""
    sizes = {"d_model": s.E, "num_heads": 2 * s.H, "num_kv_heads": s.H, "head_dim": 2 * s.D}
    f = prepared(build(**{**sizes, "bias": s.bias, "query_key_norm": 0.1, **options}), draw)
    return f, draw.normal(s.B, s.T, s.E)


def _turns(draw: Draw, s: Setting, first: int = 0) -> Tensor:
    """Of the positions first, first + 1, …: (2, T, D)."""
    positions = torch.arange(first, first + s.T, dtype=draw.dtype, device=draw.device)
    angles = positions.unsqueeze(-1) * torch.linspace(1.0, 0.1, s.D, dtype=draw.dtype, device=draw.device)
    return torch.stack((angles.cos(), angles.sin()))


def later_tokens_are_invisible(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """f(x)[:, :t] depends on x[:, :t] only, and is f(x[:, :t])."""
    (f, x), turns, cut = _attention(build, draw, s), _turns(draw, s), (s.T + 1) // 2
    later = (torch.arange(s.T, device=draw.device) >= cut).unsqueeze(-1)
    leak = influence(lambda x: f(x, turns)[:, :cut], (x,), (later,))
    return max(leak, difference(f(x[:, :cut], turns[:, :cut]), f(x, turns)[:, :cut]))


@torch.no_grad()
def a_cache_changes_nothing(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """f(x), some tokens at once and then one after the other, is f(x)."""
    (f, x), turns, cut = _attention(build, draw, s), _turns(draw, s), (s.T + 1) // 2
    cache = KeyValueCache(1, capacity=1)
    pieces = [slice(0, cut), *(slice(t, t + 1) for t in range(cut, s.T))]
    stepwise = torch.cat([f(x[:, piece], turns[:, piece], cache) for piece in pieces], dim=1)
    return difference(stepwise, f(x, turns))


@torch.no_grad()
def a_chunk_after_a_cache_is_causal(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """f(x), its first token and then all the others at once, is f(x)."""
    (f, x), turns, cache = _attention(build, draw, s), _turns(draw, s), KeyValueCache(1)
    first = f(x[:, :1], turns[:, :1], cache)
    return difference(torch.cat([first, f(x[:, 1:], turns[:, 1:], cache)], dim=1), f(x, turns)) if s.T > 1 else 0.0


@torch.no_grad()
def queries_that_share_are_neighbours(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """Queries 0 … h/G - 1 use key 0: f is f with every head of W_k and W_v repeated h/G times in a row."""
    (shared, x), turns = _attention(build, draw, s), _turns(draw, s)
    own, _ = _attention(build, draw, s, num_kv_heads=2 * s.H)
    state = shared.state_dict()
    for name in [name for name in state if name.startswith(("k_proj", "v_proj"))]:
        state[name] = state[name].unflatten(0, (s.H, -1)).repeat_interleave(2, dim=0).flatten(0, 1)
    own.load_state_dict(state)
    return difference(shared(x, turns), own(x, turns))


@torch.no_grad()
def padding_on_the_left_is_invisible(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """Two tokens before x that no query may attend to, and turns that go on from them, change nothing."""
    (f, x), turns = _attention(build, draw, s), _turns(draw, s)
    before = draw.normal(s.B, 2, s.E)
    padded = torch.cat([before, x], dim=1)
    all_turns = torch.cat([turns[:, :1].expand(-1, 2, -1), turns], dim=1)
    mask = torch.arange(s.T + 2, device=draw.device) >= 2
    return difference(f(padded, all_turns, mask=mask[None, None, None])[:, 2:], f(x, turns))


def a_shift_of_all_positions_is_invisible(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """f with the turns of the positions p + c is f with those of p."""
    f, x = _attention(build, draw, s)
    return difference(f(x, _turns(draw, s, first=3)), f(x, _turns(draw, s)))


def sequences_stay_apart(build: Build, draw: Draw, s: Setting = DEFAULT) -> float:
    """f(x)[b] = f(x[b])."""
    (f, x), turns = _attention(build, draw, s), _turns(draw, s)
    return difference(f(x, turns), torch.cat([f(one, turns) for one in x.split(1)]))


SILU = named(splits_the_identity, is_open_by_the_odds)
ROTARY = named(keeps_lengths, scores_depend_on_distances_only, turns_add_up, the_first_pair_turns_fastest)
GATED_FEED_FORWARD = named(is_linear_in_the_upper_path, the_order_of_hidden_units_is_irrelevant)
CAUSAL_SELF_ATTENTION = named(
    later_tokens_are_invisible,
    a_cache_changes_nothing,
    a_chunk_after_a_cache_is_causal,
    queries_that_share_are_neighbours,
    padding_on_the_left_is_invisible,
    a_shift_of_all_positions_is_invisible,
    sequences_stay_apart,
)
