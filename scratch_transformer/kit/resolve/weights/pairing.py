"""Which of a learner's units stands for which canonical one: by shape, by what the paths say, and by order."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace

from scratch_transformer.kit.resolve.weights.unit import Unit

Pairs = dict[int, Unit]
"""Index of a canonical unit -> the learner's."""


def pairings(ours: list[Unit], theirs: list[Unit]) -> Iterator[tuple[str, Pairs]]:
    """Index of a canonical unit -> the learner's; the likeliest first, then with norms or attentions swapped."""
    base = _gated(ours, theirs, match(ours, theirs))
    shared = _one_attention(ours, base)
    if shared and len({id(base[i]) for i, unit in enumerate(ours) if unit.kind == "attention" and i in base}) == 1:
        base = shared.pop(0)[1]  # there is no other
    if without := _norm_of_a_head(ours, theirs, base):
        yield "", without
    yield "", base
    if turned := _halves_turned(ours, base):
        yield "", turned
    moved = _norm_elsewhere(ours, base)
    if moved:
        yield "", moved
    if repeated := _one_for_all(ours, theirs):
        yield "", repeated
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
    yield from shared


def _one_attention(ours: list[Unit], base: Pairs) -> list[tuple[str, Pairs]]:
    """With one of a layer's two attentions in both places."""
    index = {unit.path: i for i, unit in enumerate(ours) if unit.kind == "attention"}
    pairs = [(i, index.get(p.replace("self_attn", "cross_attn"), i)) for p, i in index.items() if "self_attn" in p]
    pairs = [pair for pair in pairs if pair[0] != pair[1]]
    made = []
    for place, name in enumerate(("attention to itself", "attention to the encoder")):
        own = {i: base[pair[place]] for pair in pairs for i in pair if pair[place] in base}
        made += [(f"its {name} does for both", {**base, **own})] if own else []
    return made


def _gated(ours: list[Unit], theirs: list[Unit], base: Pairs) -> Pairs:
    """Of gate, up and down, the one of another shape is the last map; of bare matrices, shapes do not tell alone."""
    index = {unit.path: i for i, unit in enumerate(ours)}
    fixed = dict(base)
    for path, gate in index.items():
        if path.rpartition(".")[2] != "gate":
            continue
        places = [gate, index[f"{path[:-4]}linear1"], index[f"{path[:-4]}linear2"]]
        found = sorted((base[i] for i in places if i in base), key=theirs.index)
        shapes = [unit.shape for unit in found]
        odd = [unit for unit in found if shapes.count(unit.shape) == 1]
        gates = [unit for unit in found if "gate" in unit.context]
        if len(found) == 1 and shapes[0] == ours[places[2]].shape:  # nothing after the activation
            fixed = {i: unit for i, unit in fixed.items() if i not in places} | {places[1]: found[0]}
        elif len(found) == 2 and len(gates) == 1 and len(set(shapes)) == 1:  # a gate, and nothing after it
            fixed.pop(places[2], None)
            fixed |= {gate: gates[0], places[1]: found[0] if found[1] is gates[0] else found[1]}
        elif len(found) == 2:  # no gate
            last = ours[places[2]].shape
            turned = [unit for unit in found if tuple(unit.shape) == last and not unit.raw]
            down = turned[0] if len(turned) == 1 else found[1]
            fixed.pop(gate, None)
            fixed |= {places[1]: found[0] if down is found[1] else found[1], places[2]: down}
        if len(found) == 3 and len(odd) == 1:
            first, second = (unit for unit in found if unit is not odd[0])
            if "up" in first.context or "gate" in second.context:
                first, second = second, first
            fixed |= dict(zip(places, (first, second, odd[0]), strict=True))
    return fixed


def _halves_turned(ours: list[Unit], base: Pairs) -> Pairs:
    """With the other half of a matrix as the gate; {} if nothing is in halves."""
    index = {unit.path: i for i, unit in enumerate(ours)}
    turned = dict(base)
    for path, gate in index.items():
        up = index.get(f"{path[:-4]}linear1", -1)
        if path.endswith("gate") and gate in base and up in base and base[gate].half is not None:
            turned[gate], turned[up] = base[up], base[gate]
    return turned if turned != base else {}


LAYER = re.compile(r"\blayers\.\d+\.")


def _one_for_all(ours: list[Unit], theirs: list[Unit]) -> Pairs:
    """With the one layer that there is as every layer: for _ in range(n): x = self.layer(x); {} if there are more."""
    single = [i for i, unit in enumerate(ours) if not unit.layer]
    around = [unit.path.rpartition(".")[0] for unit in theirs if unit.kind == "attention"]
    if len(single) == len(ours) or len(around) != sum(ours[i].kind == "attention" for i in single):
        return {}
    within = [any(unit.path.startswith(path) for path in around) for unit in theirs]
    there = [replace(unit, layer=0 if inside else None) for unit, inside in zip(theirs, within, strict=True)]
    found = match([ours[i] for i in single], there)
    by_path = {ours[single[i]].path: unit for i, unit in found.items()}
    first = {i: LAYER.sub("layers.0.", unit.path) for i, unit in enumerate(ours)}
    return {i: by_path[path] for i, path in first.items() if path in by_path}


NORMS = (("norm", "embed_norm"), ("stack.norm", "embed_norm"), ("encoder.norm", "src_embed_norm"),
         ("decoder.norm", "tgt_embed_norm"))  # fmt: skip
"""The norm after the layers, and that of the embeddings: of a single one in a class, trial tells which it is."""


def _norm_elsewhere(ours: list[Unit], base: Pairs) -> Pairs:
    """With a norm that stood after the layers put before them, or the other way round; {} if there is none."""
    index = {unit.path: i for i, unit in enumerate(ours)}
    moved = dict(base)
    for last, first in NORMS:
        here, there = index.get(last), index.get(first)
        if here is not None and there is not None and (here in base) != (there in base):
            old, new = (here, there) if here in base else (there, here)
            moved[new] = moved.pop(old)
    return moved if moved != base else {}


def _norm_of_a_head(ours: list[Unit], theirs: list[Unit], base: Pairs) -> Pairs:
    """Without a norm after the layers, where what gives no scores here has maps behind them: BERT's head for masked
    words has a norm between two; {} if there is no such norm.
    """
    is_last = [i for i, unit in enumerate(ours) if unit.path == "stack.norm"]
    spare = [u for u in theirs if u.kind == "matrix" and u.layer is None and "projection" in u.context]
    has_scores = any("projection" in unit.context for unit in ours)
    is_one = is_last and not has_scores and len(spare) > 1 and is_last[0] in base
    return {i: unit for i, unit in base.items() if i not in is_last} if is_one else {}


def match(ours: list[Unit], theirs: list[Unit]) -> Pairs:
    """For every canonical unit, the learner's of its kind and shape that fits its place best and is next in order."""
    pairs: Pairs = {}
    free = list(theirs)
    usual = [unit for unit in ours if not unit.path.endswith(MEMORY_NORM)]
    is_usual = _norms_in_layers(theirs) <= _norms_in_layers(usual)
    are_few = _norms_in_layers(theirs) < _norms_in_layers(usual)
    by_number = 0.25 * (are_few or (is_usual and _are_numbered(theirs)))
    first = min((number for unit in theirs if unit.kind == "norm" for number in _numbers(unit)), default=1)
    scored = sorted(
        (-_score(unit, other) - _by_order(unit, j, theirs) - by_number * _is_numbered_alike(unit, other, first), i, j)
        for i, unit in enumerate(ours)
        for j, other in enumerate(theirs)
        if _fits(unit, other) and not (is_usual and unit.path.endswith(MEMORY_NORM))
    )
    for _, i, j in scored:
        if i not in pairs and theirs[j] in free:
            pairs[i] = theirs[j]
            free.remove(theirs[j])
    return pairs


MEMORY_NORM = "norm_memory"
"""Of the encoder's output, in a layer of the decoder that has a norm more than usual."""
MEMORY = re.compile(r"mem|kv|context|ctx|enc\w*_?out")
"""In its name."""


def _are_numbered(theirs: list[Unit]) -> bool:
    """Whether all norms in layers, or of a layer, are, so that the number of each is its place."""
    norms = [unit for unit in theirs if unit.kind == "norm"]
    return all(NUMBERED.search(unit.path) for unit in [u for u in norms if u.layer is not None] or norms)


def _is_numbered_alike(ours: Unit, theirs: Unit, first: int) -> bool:
    """Of norms: norm2 is the second, whichever was made first, and where one of them is not used.

    first: the least of their numbers; of those that count from 0, norm1 is the second.
    """
    counted = [number + (first == 0) for number in _numbers(theirs)]
    return ours.kind == theirs.kind == "norm" and _numbers(ours) == counted != []


def _numbers(unit: Unit) -> list[int]:
    """The number at the end of its path, if there is one."""
    return [int(number) for number in NUMBERED.findall(unit.path)]


NUMBERED = re.compile(r"(?<=[a-z_])\d+$")


def _norms_in_layers(units: list[Unit]) -> int:
    """Those outside of the layers of a stack are left out."""
    is_stack = any(unit.layer is not None for unit in units)
    return sum(unit.kind == "norm" and (unit.layer is not None or not is_stack) for unit in units)


def _by_order(ours: Unit, number: int, theirs: list[Unit]) -> float:
    """Norms outside the layers: those made before the first layer are the embeddings', the others the last.

    A single one of a model with two sides, that none of them is said to have, is before the scores.
    """
    if ours.kind != "norm" or theirs[number].layer is not None:
        return 0.0
    side = theirs[number].context[:1]
    if ours.path == "decoder.norm" and [unit for unit in theirs if _is_of_no_side(unit)] == [theirs[number]]:
        return 1.0
    first = next((j for j, unit in enumerate(theirs) if unit.layer is not None and unit.context[:1] == side), -1)
    return 1.0 if first >= 0 and ours.path.endswith("embed_norm") == (number < first) else 0.0


def _is_of_no_side(unit: Unit) -> bool:
    """Whether it is a norm outside of all layers, of which its name does not say whose it is."""
    return unit.kind == "norm" and unit.layer is None and not {"encoder", "decoder"} & {*unit.context}


def _fits(ours: Unit, theirs: Unit) -> bool:
    if ours.kind != theirs.kind:
        return False
    if ours.kind == "attention":
        return True
    shape = tuple(size for size in theirs.shape if size != 1) or theirs.shape
    if ours.kind == "norm":
        return shape in (ours.shape, (1,))
    return sorted(shape) == sorted(ours.shape) or _is_longer_table(ours, theirs)


MOST_WORDS = 4
"""More than its tokenizer has: <pad>, <s>, </s>, <unk>."""


def _is_longer_table(ours: Unit, theirs: Unit) -> bool:
    """A table with more rows than are needed: of positions, nn.Embedding(512, d_model); of a few words more."""
    if len(theirs.shape) != 2 or len(ours.shape) != 2 or theirs.shape[1] != ours.shape[1]:
        return False
    more = theirs.shape[0] - ours.shape[0]
    is_of_positions, is_of_words = (
        word in ours.context and word in theirs.context for word in ("position", "embedding")
    )
    return more > 0 and (is_of_positions or (is_of_words and more <= MOST_WORDS))


def _score(ours: Unit, theirs: Unit) -> float:
    score = 0.0
    for one, other in (("encoder", "decoder"), ("self", "cross"), ("source", "target")):
        for here, there in ((one, other), (other, one)):
            if here in ours.context:
                score += 3 * (here in theirs.context) - 3 * (there in theirs.context)
    for word in ("position", "projection"):
        score += 2 if (word in ours.context) == (word in theirs.context) else -2
    score += 1 if ("embedding" in ours.context) == ("embedding" in theirs.context) else -1
    for word, name in (("gate", "gate"), ("up", "linear1"), ("down", "linear2")):
        if word in theirs.context:
            score += 3 if ours.path.endswith(name) else -3
    if ours.layer is not None or theirs.layer is not None:
        score += 2 if ours.layer == theirs.layer else -1
    if ours.path.endswith(MEMORY_NORM):
        score += 2 if MEMORY.search(theirs.path.lower()) else -1
    if tuple(theirs.shape) == ours.shape and not theirs.raw:
        score += 0.5
    return score
