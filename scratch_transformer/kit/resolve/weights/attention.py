"""Where w_q, w_k, w_v, w_o are in a learner's attention: four projections, a packed one, one per head, raw tensors."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from scratch_transformer.kit.resolve.names.roles import role_of
from scratch_transformer.kit.resolve.weights.layout import ZERO, Layout, missing

ROLES = ("q", "k", "v", "o")
PACKED = {"qkv": 3, "kv": 2, "qk": 2}
OF_TWO = (("q", "kv", "o"), ("qk", "v", "o"))
BY_ORDER = "projections found by their order"
Weights = dict[str, Tensor]
BIAS = re.compile(r"bias$|(^|\.)(b_?[qkvo]|[qkvo]_?b)$", re.I)
"""Paths of biases, some of which have a row for every head: bq (h, d_k)."""
BESIDE = "it is given queries, keys and values that are projected already: it only splits, attends and merges"
BY_NUMBER = {1: ("qkv",), 2: ("qkv", "o"), 3: ("q", "k", "v"), 4: ROLES}
"""What so many of unknown names are, in the order in which they are made."""
OF_A_HEAD = (re.compile(r"(?<=\.)\d+\.(?=\w)"), re.compile(r"\.\d+(?=\.|$)"))
"""Which of a list of heads it is: `one.0.a`, a part of a head, or also `a.0`, a matrix of a list of them."""
IsRaw = Callable[[str], bool]
"""Path -> positions, within one attention module."""


@dataclass(frozen=True)
class Sizes:
    """E: d_model. h: heads of queries; kv: of keys and values. d: features of a head."""

    E: int
    h: int
    kv: int
    d: int

    def heads(self, role: str) -> int:
        return self.kv if role in ("k", "v") else self.h

    def shape(self, role: str) -> tuple[int, int]:
        """Of a weight."""
        return (self.E, self.h * self.d) if role == "o" else (self.heads(role) * self.d, self.E)


def sizes_of(settings: Mapping[str, int]) -> Sizes:
    """As the settings say: as many heads of keys as of queries, and d_model / heads features, unless they say so."""
    E, h = settings["d_model"], settings.get("num_heads", 1)
    return Sizes(E, h, settings.get("num_kv_heads") or h, settings.get("d_k") or E // h)


def layouts(weights: Weights, sizes: Sizes, is_raw: IsRaw) -> Iterator[tuple[str, Layout]]:
    """Layouts to try, the likeliest first, with a sentence for those that are not a matter of course.

    is_raw: whether a path is a bare nn.Parameter, whose orientation is not known, and no part of an nn.Linear.
    """
    seen: set[tuple[bytes, ...]] = set()
    for note, layout in _all(weights, sizes, is_raw):
        key = tuple(layout[name].contiguous().numpy().tobytes() for name in sorted(layout))
        if key not in seen and _fits(layout, sizes):
            seen.add(key)
            yield note, layout


def _fits(layout: Layout, sizes: Sizes) -> bool:
    shapes = {name: sizes.shape(name[2]) for name in layout}
    return all(
        tuple(positions.shape) == (shapes[name] if name.endswith("weight") else shapes[name][:1])
        for name, positions in layout.items()
    )


def _all(weights: Weights, sizes: Sizes, is_raw: IsRaw) -> Iterator[tuple[str, Layout]]:
    named = _named(weights)
    ordered = list(_ordered(weights))
    yield from (("", layout) for layout in _of(weights, named or {}, sizes, is_raw) if named)
    in_turn = itertools.zip_longest(*(_of(weights, groups, sizes, is_raw) for groups in ordered))
    yield from ((BY_ORDER, layout) for made in in_turn for layout in made if layout is not None)
    for groups in filter(None, (named, *ordered[:1])):
        if {"q", "k", "v"} <= groups.keys():
            yield from _permuted(weights, groups, sizes, is_raw)
    if sum(positions.dim() >= 2 for positions in weights.values()) == 1:
        yield from ((BESIDE, layout) for layout in _of(weights, {"o": list(weights)}, sizes, is_raw))


def _permuted(
    weights: Weights, groups: dict[str, list[str]], sizes: Sizes, is_raw: IsRaw
) -> Iterator[tuple[str, Layout]]:
    present = [role for role in ROLES if role in groups]
    for order in list(itertools.permutations(present))[1:]:
        other = dict(zip(order, (groups[role] for role in present), strict=True))
        moved = ", ".join(f"W_{a} is its {b}" for a, b in zip(order, present, strict=True) if a != b)
        first = next(iter(_of(weights, other, sizes, is_raw)), None)
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
    others = [path for path in weights if role_of(path) is None]
    if complete and "o" not in groups and sum(weights[path].dim() == 2 for path in others) == 1:
        groups["o"] = others  # whatever it is called
    return groups if complete or {"qk", "v"} <= groups.keys() else None


def _ordered(weights: Weights) -> Iterator[dict[str, list[str]]]:
    """Role -> paths, by the order in which they were made: q, k, v, o; packed, o by their sizes.

    Of three, one may be packed, and the last be o; their shapes tell which: the same is then made in any order.
    """
    matrices = [path for path, positions in weights.items() if positions.dim() >= 2]
    holders = [path.rpartition(".")[0] for path in matrices]
    owners = [
        holder if path.endswith((".weight", ".bias")) or (holder and holders.count(holder) == 1) else path
        for path, holder in zip(matrices, holders, strict=True)
    ]
    if len(matrices) == 2 and weights[matrices[1]].numel() > weights[matrices[0]].numel():
        owners.reverse()  # the packed one is the larger, whichever was made first
    for of_a_head in OF_A_HEAD:
        kinds = list(dict.fromkeys(of_a_head.sub("", owner) for owner in owners))
        if len(kinds) in BY_NUMBER:
            break
    else:
        return
    ways = [zip(BY_NUMBER[len(kinds)], kinds, strict=True)]
    if len(kinds) == 3 and len({weights[path].numel() for path in matrices}) > 1:
        ways += [zip(two, order, strict=True) for two in OF_TWO for order in itertools.permutations(kinds)]
    for way in ways:
        yield {role: _owned(weights, kind, of_a_head) for role, kind in way}


def _owned(weights: Weights, kind: str, of_a_head: re.Pattern[str]) -> list[str]:
    """Paths of what is called so, itself or its weight and bias: of one module, or of one in each head."""
    names = [(path, of_a_head.sub("", path), of_a_head.sub("", path.rpartition(".")[0])) for path in weights]
    return [path for path, whole, holder in names if whole == kind or ("." in path and holder == kind)]


# ---- From paths to positions ----


def _of(weights: Weights, groups: dict[str, list[str]], sizes: Sizes, is_raw: IsRaw) -> Iterator[Layout]:
    """All layouts for one reading of the names; those with less usual choices come later."""
    choices: list[list[Layout]] = []
    for role, paths in groups.items():
        big = [path for path in paths if weights[path].dim() >= 2]
        matrices = [weights[path] for path in [path for path in big if not BIAS.search(path)] or big]
        biases = [weights[path] for path in paths if weights[path].dim() == 1 or BIAS.search(path)]
        raw = any(map(is_raw, big))
        packed = role in PACKED
        made = (_packed if packed else _single)(role, matrices, biases, sizes, raw)
        if not made:
            return
        choices.append(made)
    ranked = sorted(itertools.product(*(range(len(options)) for options in choices)), key=lambda c: (len({*c}), sum(c)))
    for choice in ranked:  # what is turned in one projection is most likely turned in all
        layout: Layout = {}
        for options, index in zip(choices, choice, strict=True):
            layout |= options[index]
        yield _completed(layout, sizes)


def _completed(layout: Layout, sizes: Sizes) -> Layout:
    for role in ROLES:
        shape = sizes.shape(role)
        layout.setdefault(f"w_{role}.weight", missing(shape, "weight"))
        layout.setdefault(f"w_{role}.bias", missing(shape[:1], "bias"))
    return layout


def _single(role: str, matrices: list[Tensor], biases: list[Tensor], sizes: Sizes, raw: bool) -> list[Layout]:
    """Layouts of one projection: w_{role}.weight and .bias."""
    shape = sizes.shape(role)
    if len(matrices) == 1:
        W = matrices[0]
        turned = [W.T, W] if raw and W.dim() == 2 else [W]
        options = [found for option in turned for found in _square(option, role, sizes)]
    elif len(matrices) == sizes.heads(role):
        options = _heads(matrices, role, sizes, raw)
    else:
        return []
    layouts: list[Layout] = [{f"w_{role}.weight": option} for option in options if option.shape == shape]
    bias = _bias(biases, shape[0], sizes.heads(role))
    if bias is not None:
        layouts = [{**layout, f"w_{role}.bias": bias} for layout in layouts]
    return layouts


def _square(W: Tensor, role: str, sizes: Sizes) -> list[Tensor]:
    """One tensor as (out, in); dimensions of size 1 are there to be broadcast."""
    W = W.squeeze() if W.dim() > 2 else W
    E, n, d, shape, wanted = sizes.E, sizes.heads(role), sizes.d, tuple(W.shape), sizes.shape(role)
    if role == "o":
        threes = [
            ((n, d, E), lambda: W.reshape(n * d, E).T),
            ((E, n, d), lambda: W.reshape(E, n * d)),
            ((n, E, d), lambda: W.permute(1, 0, 2).reshape(E, n * d)),
        ]
    else:
        threes = [
            ((n, E, d), lambda: W.permute(0, 2, 1).reshape(n * d, E)),
            ((n, d, E), lambda: W.reshape(n * d, E)),
            ((E, n, d), lambda: W.reshape(E, n * d).T),
        ]
    made = [make() for own, make in threes if own == shape]  # two, where a head is as wide as d_model
    if made:
        return made
    if shape == wanted:
        return [W]
    if shape == (d, d) and wanted == (E, E):  # one small matrix that all heads share
        return [_block_diagonal([W] * n)]
    if W.dim() == 2 and shape[1] == E and wanted[0] % shape[0] == 0 and shape[0] % d == 0 and role != "o":
        return [W.reshape(-1, d, E).repeat_interleave(wanted[0] // shape[0], 0).reshape(wanted)]  # shared by heads
    return []


def _block_diagonal(blocks: Sequence[Tensor]) -> Tensor:
    """A small matrix for each head's own features."""
    d = blocks[0].shape[0]
    full = torch.full((len(blocks) * d, len(blocks) * d), ZERO)
    for head, block in enumerate(blocks):
        full[head * d : (head + 1) * d, head * d : (head + 1) * d] = block
    return full


def _heads(matrices: list[Tensor], role: str, sizes: Sizes, raw: bool) -> list[Tensor]:
    """One matrix a head, (d, E) or, for the output, (E, d); bare ones may be turned."""
    d = sizes.d
    if any(W.dim() != 2 or d not in W.shape for W in matrices) or len({tuple(sorted(W.shape)) for W in matrices}) > 1:
        return []
    side, is_square = int(role == "o"), matrices[0].shape[0] == matrices[0].shape[1]
    turned = [W if W.shape[side] == d else W.T for W in matrices]
    ways = ([W.T for W in matrices], matrices)[not raw :] if is_square else [turned]
    if role != "o" and is_square and d != sizes.E:  # no head is as wide as d_model
        return [_block_diagonal(some) for some in ways]
    return [torch.cat([*some], side) for some in ways]


def _bias(biases: list[Tensor], size: int, heads: int) -> Tensor | None:
    if not biases:
        return None
    joined = torch.cat([bias.flatten() for bias in biases])
    if len(joined) == size // heads and heads > 1:
        return joined.repeat(heads)
    return joined if len(joined) == size else None


def _packed(role: str, matrices: list[Tensor], biases: list[Tensor], sizes: Sizes, raw: bool) -> list[Layout]:
    """Layouts of several projections in one matrix: one after the other, or head by head; in any order."""
    n, E = PACKED[role], sizes.E
    rows = sum(sizes.shape(name)[0] for name in role)
    of_heads = len(matrices) == sizes.h == sizes.kv > 1 and {tuple(W.shape) for W in matrices} == {(n * sizes.d, E)}
    if of_heads:
        matrices = [torch.cat(matrices)]
    if len(matrices) != 1:
        return []
    W = matrices[0]
    if tuple(W.shape) == (n * sizes.d, sizes.d) and sizes.h == sizes.kv > 1:
        return [_small(W, biases, order, sizes) for order in itertools.permutations(role)]
    W = W.reshape(rows, E) if W.dim() == 3 and tuple(W.shape) == (n, rows // n, E) else W
    if tuple(W.shape) == (E, rows) and (raw or rows != E):
        W = W.T
    if tuple(W.shape) != (rows, E):
        return []
    bias = torch.cat([b.flatten() for b in biases]) if biases else None
    bias = bias if bias is not None and len(bias) == rows else None
    parts = (_by_head, _by_feature, _by_feature_first) if sizes.h == sizes.kv or role == "kv" else ()
    orders = list(itertools.permutations(role))
    layouts = [] if of_heads else [_in_blocks(W, bias, order, sizes) for order in orders]
    for part in parts[:1] if of_heads else parts:
        for order in orders:
            layout: Layout = {}
            for index, name in enumerate(order):
                layout[f"w_{name}.weight"] = part(W, index, n, sizes.heads(name))
                if bias is not None:
                    layout[f"w_{name}.bias"] = part(bias, index, n, sizes.heads(name))
            layouts.append(layout)
    if parts and role == "qkv" and not of_heads:
        layouts += [_queries_apart(W, bias, order, sizes) for order in ("kv", "vk")]
    if n == 2:
        return layouts
    return sorted(layouts, key=lambda layout: next(iter(layout)) != f"w_{role[0]}.weight")


def _in_blocks(W: Tensor, bias: Tensor | None, order: Sequence[str], sizes: Sizes) -> Layout:
    """One after the other."""
    ends = [sizes.shape(name)[0] for name in order]
    layout: Layout = {f"w_{name}.weight": part for name, part in zip(order, W.split(ends), strict=True)}
    if bias is not None:
        layout |= {f"w_{name}.bias": part for name, part in zip(order, bias.split(ends), strict=True)}
    return layout


def _queries_apart(W: Tensor, bias: Tensor | None, order: str, sizes: Sizes) -> Layout:
    """Queries first, then keys and values head by head: those of another sentence."""
    layout: Layout = {}
    for kind, packed in (("weight", W), ("bias", bias)):
        if packed is not None:
            queries, rest = packed.split([sizes.shape("q")[0], 2 * sizes.shape("k")[0]])
            layout[f"w_q.{kind}"] = queries
            layout |= {f"w_{name}.{kind}": _by_head(rest, i, 2, sizes.kv) for i, name in enumerate(order)}
    return layout


def _small(W: Tensor, biases: list[Tensor], order: Sequence[str], sizes: Sizes) -> Layout:
    """One after the other, each of which all heads share."""
    parts = zip(order, W.split(sizes.d), strict=True)
    layout: Layout = {f"w_{name}.weight": _block_diagonal([part] * sizes.h) for name, part in parts}
    if [len(bias) for bias in biases] == [len(W)]:
        layout |= {f"w_{n}.bias": b.repeat(sizes.h) for n, b in zip(order, biases[0].split(sizes.d), strict=True)}
    return layout


def _by_head(W: Tensor, index: int, n: int, h: int) -> Tensor:
    return W.unflatten(0, (h, n, -1))[:, index].flatten(0, 1)


def _by_feature(W: Tensor, index: int, n: int, h: int) -> Tensor:
    return W.unflatten(0, (h, -1, n))[:, :, index].flatten(0, 1)


def _by_feature_first(W: Tensor, index: int, n: int, h: int) -> Tensor:
    return W.unflatten(0, (-1, n, h))[:, index].transpose(0, 1).flatten(0, 1)
