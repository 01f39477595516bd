"""Where a composite's weights are: its attentions, normalizations and matrices, matched to the canonical ones.

A *unit* is an attention, a normalization, a matrix with its bias, or an embedding. Units are matched by their shape, by
what their paths say (encoder or decoder, the number of the layer, self or cross), and then by their order.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from scratch_transformer.conformance.kit.resolve import attention
from scratch_transformer.conformance.kit.resolve.layout import Layout, Parameters, missing, walk
from scratch_transformer.conformance.kit.resolve.synonyms import plain, role_of

Shapes = Mapping[str, tuple[int, ...]]
KindOf = Callable[[type], str | None]
MOST_LAYOUTS = 64


@dataclass
class Unit:
    """kind: "attention", "norm", "matrix". names: of its parameters, after `path`. shape: of its matrix or scale."""

    kind: str
    path: str
    names: list[str] = field(default_factory=list)
    shape: tuple[int, ...] = ()
    context: tuple[str, ...] = ()
    layer: int | None = None
    raw: bool = False
    """A bare parameter: x @ W or x @ W.T."""

    def full(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name


# ---- Canonical units ----


def canonical_units(shapes: Shapes) -> list[Unit]:
    """The units of a canonical state, in its order."""
    units: dict[str, Unit] = {}
    for name, shape in shapes.items():
        match = re.match(r"(.*?)\.?(w_[qkvo]\.)?(weight|bias|pe|[^.]+)$", name)
        path, projection, last = match.groups() if match else ("", None, name)
        unit = units.setdefault(path, Unit("matrix", path, context=_context(path), layer=_layer(path)))
        unit.names.append(f"{projection or ''}{last}")
        if projection:
            unit.kind = "attention"
        elif last != "bias":
            unit.shape = tuple(shape)
            unit.kind = "norm" if len(shape) == 1 else "matrix"
    return list(units.values())


def _layer(path: str) -> int | None:
    """The number of the layer in a stack: layers.0.norm1, blks.block0.addnorm1."""
    match = re.search(r"(?:^|\.)(?:\w*(?:layer|block|blk|enc|dec|h)s?_?)?(\d+)(?=\.|$)", path)
    return int(match[1]) if match else None


CROSS = re.compile(
    r"cross|src_att|enc_?dec|encoder_?decoder|enc_?att|encoder_?att|multihead_attn|memory|dec_?enc|context|"
    r"inter_att|co_?att|mha2|att\w*_?2|second"
)


def _context(path: str) -> tuple[str, ...]:
    """What a path says about the place: encoder, decoder, self, cross, source, target, final."""
    word, found = path.lower(), []
    if re.search(r"(^|[._])(enc|encoder|encode)", word):
        found.append("encoder")
    both = re.search(r"enc_?dec|encoder_?decoder|dec_?enc", word)
    if re.search(r"(^|[._])(dec|decoder)(?!ode_)", word) and not both:
        found.append("decoder")
    if CROSS.search(word):
        found.append("cross")
    elif re.search(r"self|masked|mha1|att\w*_?1|slf", word):
        found.append("self")
    if re.search(r"(^|[._])(src|source|enc\w*_emb|encoder_emb|input_emb|inp)", word):
        found.append("source")
    if re.search(r"(^|[._])(tgt|trg|target|dec\w*_emb|decoder_emb|output_emb|tar)", word):
        found.append("target")
    if re.search(r"pos", word):
        found.append("position")
    if re.search(r"(proj|generator|head$|lm_head|fc_out|out$|logits|vocab|linear$|output$|final|classifier)", word):
        found.append("projection")
    return tuple(found)


# ---- A learner's units ----


def learner_units(parameters: Parameters, kind_of: KindOf) -> list[Unit]:
    """The units of a learner's module, in the order in which they were made."""
    attentions, is_raw = _attentions(parameters, kind_of), raw_test(parameters)
    units: dict[str, Unit] = {}
    for name, positions in parameters.positions.items():
        home = next((path for path in attentions if name.startswith(f"{path}.") or not path), None)
        if home is not None and not _is_norm(name[len(home) :], positions):
            unit = units.setdefault(home, Unit("attention", home, [], (), _context(home), _layer(home)))
            unit.names.append(name[len(home) + 1 :] if home else name)
            continue
        path, _, last = name.rpartition(".")
        bias = positions.dim() == 1 and re.search(r"bias|beta|shift|(^|_)b(_?\d)?$", last) is not None
        raw = last not in ("weight", "bias") and positions.dim() >= 2
        key = name if raw else path
        unit = units.setdefault(key, Unit("matrix", path, [], (), _context(name), _layer(name)))
        unit.names.append(last)
        if not unit.shape or not bias:
            unit.shape, unit.raw = tuple(positions.shape), is_raw(name)
            unit.kind = "norm" if positions.dim() == 1 else "matrix"
    return list(units.values())


def _attentions(parameters: Parameters, kind_of: KindOf) -> list[str]:
    """The paths of the modules that are attentions: of a class known as one, or named so with weights q, k and v."""
    found: list[str] = []
    for path, module in walk(parameters.module):
        if any(path.startswith(f"{other}.") for other in found):
            continue
        own = [
            name[len(path) + 1 :] if path else name
            for name in parameters.positions
            if name.startswith(f"{path}.") or not path
        ]
        known = kind_of(type(module)) or ""
        named = "att" in type(module).__name__.lower() or re.search(r"att|mha", path.rpartition(".")[2].lower())
        is_known = isinstance(module, nn.MultiheadAttention) or (known.endswith("Attention") and own)
        looks_so = named and path and own and not isinstance(module, (nn.ModuleList, nn.Linear)) and _has_roles(own)
        if is_known or looks_so:
            found.append(path)
    return found


def _is_norm(name: str, positions: Tensor) -> bool:
    """Whether a parameter within an attention belongs to a normalization there."""
    return positions.dim() == 1 and re.search(r"norm|(^|[._])ln", name.lower()) is not None


def _has_roles(names: list[str]) -> bool:
    names = [name for name in names if not re.search(r"norm|(^|[._])ln", name.lower())]
    if len(names) > 60:
        return False
    roles = {role_of(name) for name in names}
    weights = [name for name in names if not name.endswith("bias")]
    return {"q", "k", "v"} <= roles or "qkv" in roles or {"q", "kv"} <= roles or len(weights) == 4


# ---- Matching ----


def layouts(
    parameters: Parameters, shapes: Shapes, settings: Mapping[str, int], kind_of: KindOf, choices: Mapping[type, int]
) -> Iterator[tuple[str, Layout]]:
    """Layouts to try, the likeliest first. choices: for classes of attention, which of its layouts was right."""
    ours, theirs = canonical_units(shapes), learner_units(parameters, kind_of)
    if not any(unit.path.startswith("layers.") or ".layers." in unit.path for unit in ours):  # no stack
        for unit in [*ours, *theirs]:
            unit.layer = None
    made = 0
    for note, pairs in _pairings(ours, theirs):
        for index in range(3 if made else 8):
            layout = _layout(pairs, ours, parameters, shapes, settings, choices, index)
            if layout is None:
                break
            yield note, layout
            made += 1
            if made >= MOST_LAYOUTS:
                return
            if not any(unit.kind == "attention" for unit in ours):
                break


def _pairings(ours: list[Unit], theirs: list[Unit]) -> Iterator[tuple[str, dict[int, Unit]]]:
    """Index of a canonical unit -> the learner's; the likeliest first, then with norms or attentions swapped."""
    base = _match(ours, theirs)
    yield "", base
    for kind, words in (("norm", "normalizations"), ("attention", "attentions")):
        groups: dict[int | None, list[int]] = {}
        for index, unit in enumerate(ours):
            if unit.kind == kind and index in base:
                groups.setdefault((unit.context[:1], unit.layer), []).append(index)  # type: ignore[arg-type]
        size = max((len(group) for group in groups.values()), default=0)
        if not 2 <= size <= 3:
            continue
        for order in list(itertools.permutations(range(size)))[1:]:
            swapped = dict(base)
            for group in groups.values():
                if len(group) == size:
                    swapped |= {group[i]: base[group[j]] for i, j in enumerate(order)}
            yield f"{words} found by trial", swapped


def _match(ours: list[Unit], theirs: list[Unit]) -> dict[int, Unit]:
    """For every canonical unit, the learner's of its kind and shape that fits its place best and is next in order."""
    pairs: dict[int, Unit] = {}
    free = list(theirs)
    scored = sorted(
        (
            (-_score(unit, other), abs(i / max(len(ours), 1) - j / max(len(theirs), 1)), i, j)
            for i, unit in enumerate(ours)
            for j, other in enumerate(theirs)
            if _fits(unit, other)
        ),
        key=lambda entry: (entry[0], entry[2], entry[3]),
    )
    for _, _, i, j in scored:
        if i not in pairs and theirs[j] in free:
            pairs[i] = theirs[j]
            free.remove(theirs[j])
    return pairs


def _fits(ours: Unit, theirs: Unit) -> bool:
    if ours.kind != theirs.kind:
        return False
    if ours.kind == "attention":
        return True
    shape = tuple(size for size in theirs.shape if size != 1) or theirs.shape
    if ours.kind == "norm":
        return shape in (ours.shape, (1,))
    return sorted(shape) == sorted(ours.shape)


def _score(ours: Unit, theirs: Unit) -> float:
    score = 0.0
    for one, other in (("encoder", "decoder"), ("self", "cross"), ("source", "target")):
        for here, there in ((one, other), (other, one)):
            if here in ours.context:
                score += 3 * (here in theirs.context) - 3 * (there in theirs.context)
    for word in ("position", "projection"):
        score += 2 if (word in ours.context) == (word in theirs.context) else -2
    if ours.layer is not None or theirs.layer is not None:
        score += 2 if ours.layer == theirs.layer else -1
    if tuple(theirs.shape) == ours.shape and not theirs.raw:
        score += 0.5
    return score


# ---- From pairs to positions ----


def _layout(
    pairs: dict[int, Unit], ours: list[Unit], parameters: Parameters, shapes: Shapes, settings: Mapping[str, int],
    choices: Mapping[type, int], index: int,
) -> Layout | None:  # fmt: skip
    layout: Layout = {name: missing(shape, name) for name, shape in shapes.items()}
    modules = dict(walk(parameters.module))
    for i, unit in enumerate(ours):
        if i not in pairs:
            continue
        theirs = pairs[i]
        weights = {name: parameters.positions[theirs.full(name)] for name in theirs.names}
        if unit.kind == "attention":
            chosen = choices.get(type(modules.get(theirs.path)), 0) if index == 0 else index
            found = attention_layout(weights, settings, parameters, theirs.path, chosen)
            if found is None:
                return None
            layout |= {unit.full(name): positions for name, positions in found.items() if unit.full(name) in shapes}
        else:
            layout |= _plain(unit, theirs, weights, shapes, parameters)
    return layout | _tied([unit for i, unit in enumerate(ours) if i not in pairs], layout, shapes)


def _tied(left: list[Unit], layout: Layout, shapes: Shapes) -> Layout:
    """A projection without weights of its own uses the embedding's: x @ wte.T."""
    found: Layout = {}
    for name in (unit.full("weight") for unit in left if "projection" in unit.context):
        others = (layout[other] for other in layout if "embed" in other and shapes[other] == shapes.get(name))
        found |= dict.fromkeys([name], next(others, layout[name])) if name in shapes else {}
    return found


def attention_layout(
    weights: Mapping[str, Tensor], settings: Mapping[str, int], parameters: Parameters, path: str, chosen: int
) -> Layout | None:
    """The layout number `chosen` of one attention; None if there are fewer."""
    heads, d_model = settings.get("num_heads", 1), settings["d_model"]
    found = attention.layouts(dict(weights), d_model, heads, raw_test(parameters, path))
    return next((layout for _, layout in itertools.islice(found, chosen, chosen + 1)), None)


def raw_test(parameters: Parameters, path: str = "") -> Callable[[str], bool]:
    """Is a parameter bare, used as x @ W perhaps, and no nn.Linear's or nn.Embedding's?"""
    modules = dict(walk(parameters.module))

    def is_raw(name: str) -> bool:
        full = f"{path}.{name}" if path else name
        owner = modules.get(full.rpartition(".")[0])
        return not isinstance(owner, (nn.Linear, nn.MultiheadAttention, nn.LazyLinear, nn.Embedding))

    return is_raw


def _plain(
    ours: Unit, theirs: Unit, weights: dict[str, Tensor], shapes: Shapes, parameters: Parameters
) -> dict[str, Tensor]:
    """A normalization, or a matrix with or without bias."""
    layout: dict[str, Tensor] = {}
    scale, shift = _scale_and_shift(theirs, weights, parameters)
    for name in ours.names:
        full = ours.full(name)
        found = shift if name.endswith("bias") else scale
        if found is None:
            continue
        fitted = _fitted(found, tuple(shapes[full]))
        if fitted is not None:
            layout[full] = fitted
    return layout


def _scale_and_shift(
    theirs: Unit, weights: dict[str, Tensor], parameters: Parameters
) -> tuple[Tensor | None, Tensor | None]:
    """Which is the weight and which the bias: by shape, by name, by the initial value (ones and zeros), by order."""
    if theirs.kind == "matrix":
        big = next((w for w in weights.values() if w.dim() >= 2), None)
        return big, next((w for w in weights.values() if w.dim() == 1), None)
    names = list(weights)
    shifts = [
        name
        for name in names
        if re.search(r"bias|beta|shift|offset|^b(_?\d)?$|b_2", plain(name)) or name in ("b", "b_2")
    ]
    if not shifts:
        shifts = [name for name in names if not parameters.initial[theirs.full(name)].any()]
    if not shifts and len(names) == 2:
        shifts = names[1:]
    scales = [name for name in names if name not in shifts]
    return (weights[scales[0]] if scales else None), (weights[shifts[0]] if shifts else None)


def _fitted(positions: Tensor, shape: tuple[int, ...]) -> Tensor | None:
    """Positions in the canonical shape: squeezed, transposed, or one number for all."""
    if tuple(positions.shape) == shape:
        return positions
    if positions.numel() == 1:
        return positions.reshape(-1).expand(shape).clone()
    if positions.numel() == torch.Size(shape).numel():
        squeezed = positions.squeeze()
        if tuple(squeezed.shape) == shape:
            return squeezed
        if squeezed.dim() == 2 and tuple(squeezed.T.shape) == shape:
            return squeezed.T
        return positions.reshape(shape) if len(shape) == 1 else None
    if positions.dim() == 2 and len(shape) == 2 and positions.shape[1] == shape[1] and positions.shape[0] > shape[0]:
        return positions[: shape[0]]  # a table of positions that is longer than needed
    return None
