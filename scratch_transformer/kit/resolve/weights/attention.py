"""Where w_q, w_k, w_v, w_o are in a learner's attention: four projections, a packed one, one per head, raw tensors."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from scratch_transformer.kit.resolve.names.roles import role_of
from scratch_transformer.kit.resolve.weights.layout import ZERO, Layout, missing

ROLES = ("q", "k", "v", "o")
PACKED = {"qkv": 3, "kv": 2, "qk": 2}
Weights = dict[str, Tensor]
BIAS = re.compile(r"bias$|(^|\.)(b_?[qkvo]|[qkvo]_?b)$")
"""Paths of biases, some of which have a row for every head: bq (h, d_k)."""
IsRaw = Callable[[str], bool]
"""Path -> positions, within one attention module."""


def layouts(weights: Weights, d_model: int, heads: int, is_raw: IsRaw) -> Iterator[tuple[str, Layout]]:
    """Layouts to try, the likeliest first, with a sentence for those that are not a matter of course.

    is_raw: whether a path is a bare nn.Parameter, whose orientation is not known, and no part of an nn.Linear.
    """
    seen: set[tuple[bytes, ...]] = set()
    for note, layout in _all(weights, d_model, heads, is_raw):
        key = tuple(layout[name].contiguous().numpy().tobytes() for name in sorted(layout))
        if key not in seen and _fits(layout, d_model):
            seen.add(key)
            yield note, layout


def _fits(layout: Layout, d_model: int) -> bool:
    return all(
        tuple(positions.shape) == ((d_model, d_model) if name.endswith("weight") else (d_model,))
        for name, positions in layout.items()
    )


def _all(weights: Weights, E: int, h: int, is_raw: IsRaw) -> Iterator[tuple[str, Layout]]:
    named = _named(weights)
    ordered = _ordered(weights)
    for groups, note in ((named, ""), (ordered, "projections found by their order")):
        if groups is None:
            continue
        yield from ((note, layout) for layout in _of(weights, groups, E, h, is_raw))
    for groups in filter(None, (named, ordered)):
        if {"q", "k", "v"} <= groups.keys():
            yield from _permuted(weights, groups, E, h, is_raw)


def _permuted(
    weights: Weights, groups: dict[str, list[str]], E: int, h: int, is_raw: IsRaw
) -> Iterator[tuple[str, Layout]]:
    present = [role for role in ROLES if role in groups]
    for order in list(itertools.permutations(present))[1:]:
        other = dict(zip(order, (groups[role] for role in present), strict=True))
        moved = ", ".join(f"W_{a} is its {b}" for a, b in zip(order, present, strict=True) if a != b)
        first = next(iter(_of(weights, other, E, h, is_raw)), None)
        if first is not None:
            yield f"weights found by trial: {moved}", first


# ---- Which path has which role ----


def _named(weights: Weights) -> dict[str, list[str]] | None:
    """Role -> paths, by the names; None if they do not tell."""
    groups: dict[str, list[str]] = {}
    for path in weights:
        role = role_of(path)
        if role is None:
            continue
        groups.setdefault(role, []).append(path)
    complete = {"q", "k", "v"} <= groups.keys() or "qkv" in groups or {"q", "kv"} <= groups.keys()
    return groups if complete or {"qk", "v"} <= groups.keys() else None


def _ordered(weights: Weights) -> dict[str, list[str]] | None:
    """Role -> paths, by the order in which they were made: q, k, v, o, or packed, o."""
    matrices = [path for path, positions in weights.items() if positions.dim() >= 2]
    owners = [path.rpartition(".")[0] if path.endswith((".weight", ".bias")) else path for path in matrices]
    roles = {1: ("qkv",), 2: ("qkv", "o"), 3: ("q", "k", "v"), 4: ROLES}.get(len(owners))
    if roles is None:
        return None
    groups: dict[str, list[str]] = {}
    for role, owner in zip(roles, owners, strict=True):
        groups[role] = [path for path in weights if path == owner or (path.rpartition(".")[0] == owner and "." in path)]
    return groups


# ---- From paths to positions ----


def _of(weights: Weights, groups: dict[str, list[str]], E: int, h: int, is_raw: IsRaw) -> Iterator[Layout]:
    """All layouts for one reading of the names; those with less usual choices come later."""
    choices: list[list[Layout]] = []
    for role, paths in groups.items():
        big = [path for path in paths if weights[path].dim() >= 2]
        matrices = [weights[path] for path in [path for path in big if not BIAS.search(path)] or big]
        biases = [weights[path] for path in paths if weights[path].dim() == 1 or BIAS.search(path)]
        raw = any(map(is_raw, big))
        packed = role if role in PACKED else ""
        made = _packed(packed, matrices, biases, E, h, raw) if packed else _single(role, matrices, biases, E, h, raw)
        if not made:
            return
        choices.append(made)
    ranked = sorted(itertools.product(*(range(len(options)) for options in choices)), key=sum)
    for choice in ranked:
        layout: Layout = {}
        for options, index in zip(choices, choice, strict=True):
            layout |= options[index]
        yield _completed(layout, E)


def _completed(layout: Layout, E: int) -> Layout:
    for role in ROLES:
        layout.setdefault(f"w_{role}.weight", missing((E, E), "weight"))
        layout.setdefault(f"w_{role}.bias", missing((E,), "bias"))
    return layout


def _single(role: str, matrices: list[Tensor], biases: list[Tensor], E: int, h: int, raw: bool) -> list[Layout]:
    """Layouts of one projection: w_{role}.weight and .bias."""
    if len(matrices) == 1:
        W = matrices[0]
        turned = [W.T, W] if raw and W.dim() == 2 else [W]
        options = [found for option in turned for found in _square(option, role, E, h)]
    elif len(matrices) == h:
        options = _heads(matrices, role)
    else:
        return []
    layouts: list[Layout] = [{f"w_{role}.weight": option} for option in options if option.shape == (E, E)]
    bias = _bias(biases, E, h)
    if bias is not None:
        layouts = [{**layout, f"w_{role}.bias": bias} for layout in layouts]
    return layouts


def _square(W: Tensor, role: str, E: int, h: int) -> list[Tensor]:
    """One tensor as (E out, E in)."""
    d_k = E // h
    shape = tuple(W.shape)
    if role == "o":
        threes = {
            (h, d_k, E): lambda: W.reshape(E, E).T,
            (E, h, d_k): lambda: W.reshape(E, E),
            (h, E, d_k): lambda: W.permute(1, 0, 2).reshape(E, E),
        }
    else:
        threes = {
            (h, E, d_k): lambda: W.permute(0, 2, 1).reshape(E, E),
            (h, d_k, E): lambda: W.reshape(E, E),
            (E, h, d_k): lambda: W.reshape(E, E).T,
        }
    if shape in threes:
        return [threes[shape]()]
    if shape == (E, E):
        return [W]
    if shape == (d_k, d_k):  # one small matrix that all heads share
        return [_block_diagonal(W, h)]
    if W.dim() == 2 and shape[1] == E and E % shape[0] == 0 and shape[0] % d_k == 0 and role in "kv":
        return [W.reshape(-1, d_k, E).repeat_interleave(E // shape[0], 0).reshape(E, E)]  # heads share keys and values
    return []


def _block_diagonal(W: Tensor, h: int) -> Tensor:
    d = W.shape[0]
    full = torch.full((h * d, h * d), ZERO)
    for head in range(h):
        full[head * d : (head + 1) * d, head * d : (head + 1) * d] = W
    return full


def _heads(matrices: list[Tensor], role: str) -> list[Tensor]:
    """One matrix a head; the smaller side is the head's."""
    if any(W.dim() != 2 for W in matrices):
        return []
    if role == "o":
        turned = [W if W.shape[0] >= W.shape[1] else W.T for W in matrices]
        return [torch.cat(turned, 1)]
    return [torch.cat([W if W.shape[0] <= W.shape[1] else W.T for W in matrices])]


def _bias(biases: list[Tensor], E: int, h: int) -> Tensor | None:
    if not biases:
        return None
    joined = torch.cat([bias.flatten() for bias in biases])
    if len(joined) == E // h and h > 1:
        return joined.repeat(h)
    return joined if len(joined) == E else None


def _packed(role: str, matrices: list[Tensor], biases: list[Tensor], E: int, h: int, raw: bool) -> list[Layout]:
    """Layouts of several projections in one matrix: one after the other, or head by head; in any order."""
    n = PACKED[role]
    if len(matrices) != 1:
        return []
    W = matrices[0]
    W = W.reshape(n * E, E) if W.dim() == 3 and tuple(W.shape) == (n, E, E) else W
    if tuple(W.shape) == (E, n * E):
        W = W.T
    if tuple(W.shape) != (n * E, E):
        return []
    bias = torch.cat([b.flatten() for b in biases]) if biases else None
    layouts = []
    for part in (_blocks, _by_head, _by_feature, _by_feature_first):
        for order in itertools.permutations(role):
            layout: Layout = {}
            for index, name in enumerate(order):
                layout[f"w_{name}.weight"] = part(W, index, n, h)
                if bias is not None and len(bias) == n * E:
                    layout[f"w_{name}.bias"] = part(bias, index, n, h)
            layouts.append(layout)
    return sorted(layouts, key=lambda layout: next(iter(layout)) != f"w_{role[0]}.weight")


def _blocks(W: Tensor, index: int, n: int, h: int) -> Tensor:
    return W.chunk(n)[index]


def _by_head(W: Tensor, index: int, n: int, h: int) -> Tensor:
    return W.unflatten(0, (h, n, -1))[:, index].flatten(0, 1)


def _by_feature(W: Tensor, index: int, n: int, h: int) -> Tensor:
    return W.unflatten(0, (h, -1, n))[:, :, index].flatten(0, 1)


def _by_feature_first(W: Tensor, index: int, n: int, h: int) -> Tensor:
    return W.unflatten(0, (-1, n, h))[:, index].transpose(0, 1).flatten(0, 1)
