"""Where a composite's weights are: its units matched to the canonical ones, and the numbers of each put in place."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from scratch_transformer.kit.resolve.names.roles import role_of
from scratch_transformer.kit.resolve.names.words import plain
from scratch_transformer.kit.resolve.weights import attention
from scratch_transformer.kit.resolve.weights.layout import Layout, Parameters, missing, walk
from scratch_transformer.kit.resolve.weights.pairing import Pairs, pairings
from scratch_transformer.kit.resolve.weights.units import (
    KindOf,
    Shapes,
    Unit,
    canonical_units,
    is_repeated,
    learner_units,
    raw_test,
    single_layers,
)

MOST_LAYOUTS, MOST_APART = 64, 10
FIRST = -1
"""The number of an attention's first layout, whatever was right for its class."""
SIDES = ("src_", "tgt_")
"""Of what a model may have once for both languages."""


class Numbered(dict[str, Tensor]):
    """A layout that knows the number of its attentions' layout."""

    number = 0


def layouts(
    parameters: Parameters, shapes: Shapes, settings: Mapping[str, int], kind_of: KindOf, choices: Mapping[type, int]
) -> Iterator[tuple[str, Layout]]:
    """Layouts to try, the likeliest first. choices: for classes of attention, which of its layouts was right."""
    ours = canonical_units(shapes)
    theirs = learner_units(parameters, kind_of, any(unit.kind == "attention" and not unit.path for unit in ours))
    if not any(unit.path.startswith("layers.") or ".layers." in unit.path for unit in ours):  # no stack
        for unit in [*ours, *theirs]:
            unit.layer = None
    has_attention = any(unit.kind == "attention" for unit in ours)
    made = 0
    here = Attentions(parameters, settings, choices)
    here.again = any(is_repeated(parameters.module, path) for path in single_layers(parameters.module, kind_of))
    absent = {name: missing(shape, name) for name, shape in shapes.items()}
    for note, pairs, index, of_memory in _numbered(ours, theirs, here):
        layout = _layout(pairs, ours, here, absent, shapes, (index, of_memory))
        if layout is None or (index and not has_attention):
            continue
        layout = Numbered(layout)
        layout.number = max(index, 0)
        yield note, layout
        made += 1
        if made >= MOST_LAYOUTS:
            return


def _numbered(ours: list[Unit], theirs: list[Unit], here: Attentions) -> Iterator[tuple[str, Pairs, int, int]]:
    """Pairings, each with several layouts of the attentions by number; the first of all usual ones come first.

    Also with another number for those to the encoder, where the class of all packs what it projects in one matrix.
    """
    found = list(pairings(ours, theirs))
    usual = [pairing for pairing in found if not pairing[0]]
    yield from ((*pairing, 0, 0) for pairing in usual)
    most = 14 if not any(unit.kind == "matrix" for unit in ours) else 8  # of attention alone, keys or values first too
    for pairing in usual:
        yield from ((*pairing, index, index) for index in range(1, most if pairing is usual[0] else 3))
    if usual and here.may_differ(ours, usual[0][1]):
        others = (FIRST, *range(1, MOST_APART))
        yield from ((*usual[0], *numbers) for index in others for numbers in ((0, index), (index, 0)))
    yield from ((*pairing, index, index) for pairing in found[len(usual) :] for index in range(3))


# ---- From pairs to positions ----


class Attentions:
    """The layouts of each attention of a module, made when they are asked for."""

    def __init__(self, parameters: Parameters, settings: Mapping[str, int], choices: Mapping[type, int]) -> None:
        self.parameters, self.settings, self.choices = parameters, settings, choices
        self.modules = dict(walk(parameters.module))
        self.again = False
        """Whether one layer is called again and again, in place of several."""
        self._waiting: dict[tuple[str, ...], Iterator[tuple[str, Layout]]] = {}
        self._made: dict[tuple[str, ...], list[Layout]] = {}

    def layout(self, path: str, weights: Mapping[str, Tensor], index: int) -> Layout | None:
        """The layout of this number of the attention at a path; None if there are fewer.

        0: the one that was right where its class was judged by itself, else the first.
        """
        module = self.modules.get(path)
        if type(module) is nn.MultiheadAttention and index:  # torch's own is laid out in one way
            return None
        number = self.choices.get(type(module), 0) if index == 0 else max(index, 0)
        key = (path, *weights)
        if key not in self._waiting:
            is_raw = raw_test(self.parameters, path)
            self._waiting[key] = attention.layouts(dict(weights), attention.sizes_of(self.settings), is_raw)
        made = self._made.setdefault(key, [])
        made += (layout for _, layout in itertools.islice(self._waiting[key], max(number + 1 - len(made), 0)))
        return made[number] if number < len(made) else None

    def may_differ(self, ours: list[Unit], pairs: Pairs) -> bool:
        """Whether one class attends to the sentence and to the encoder, with queries, keys and values in one matrix."""
        both = [pairs[i] for i, unit in enumerate(ours) if unit.kind == "attention" and i in pairs]
        is_crossed = any(unit.path.endswith(CROSS) for unit in ours) and len({unit.path for unit in both}) > 1
        classes = {type(self.modules.get(unit.path)) for unit in both}
        return is_crossed and len(classes) == 1 and all("qkv" in map(role_of, unit.names) for unit in both)


CROSS = "cross_attn"


def _layout(
    pairs: dict[int, Unit],
    ours: list[Unit],
    attentions: Attentions,
    absent: Layout,
    shapes: Shapes,
    numbers: tuple[int, int],
) -> Layout | None:
    """numbers: of the layouts of the attentions, and of those to the encoder."""
    layout, parameters = dict(absent), attentions.parameters
    for i, unit in enumerate(ours):
        if i not in pairs:
            continue
        theirs = pairs[i]
        weights = {name: theirs.of(parameters.positions[theirs.full(name)]) for name in theirs.names}
        if unit.kind == "attention":
            found = attentions.layout(theirs.path, weights, numbers[unit.path.endswith(CROSS)])
            if found is None:
                return None
            layout |= {unit.full(name): positions for name, positions in found.items() if unit.full(name) in shapes}
        else:
            layout |= _plain(unit, theirs, weights, shapes, parameters)
    return layout | _tied([unit for i, unit in enumerate(ours) if i not in pairs], layout, shapes, attentions.again)


def _tied(left: list[Unit], layout: Layout, shapes: Shapes, again: bool) -> Layout:
    """One embedding, or table of positions, for source and target; a projection without weights of its own uses the
    embedding's: x @ wte.T; the layers after the only one are it again.
    """
    found: Layout = {}
    for name in (unit.full(name) for unit in left for name in unit.names if again and (unit.layer or 0) > 0):
        first = re.sub(r"(^|\.)layers\.\d+\.", r"\1layers.0.", name)  # one layer, called again and again
        found |= {name: layout[first]} if shapes[first] == shapes[name] else {}
    for name in (unit.full(name) for unit in left for name in unit.names if unit.path.startswith(SIDES)):
        other = SIDES[1 - name.startswith(SIDES[1])] + name[len(SIDES[0]) :]
        if other in layout and shapes[other] == shapes[name] and bool((layout[other] >= 0).all()):
            found[name] = layout[other]
    for name in (unit.full("weight") for unit in left if "projection" in unit.context):
        others = (layout[other] for other in layout if "embed" in other and shapes[other] == shapes.get(name))
        found |= dict.fromkeys([name], next(others, layout[name])) if name in shapes else {}
    return found


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


SCALES = re.compile(r"weight|gamma|scale|gain|^g$")
"""Names of a norm's scale, whatever it starts with."""


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
        if re.search(r"bias|beta|shift|offset|^mean|^b(_?\d)?$|b_2", plain(name)) or name in ("b", "b_2")
    ]
    if not shifts:
        untold = [name for name in names if not SCALES.search(plain(name))]
        shifts = [name for name in untold if not parameters.initial[theirs.full(name)].any()]
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
