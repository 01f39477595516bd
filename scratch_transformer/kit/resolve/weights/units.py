"""The units of a composite: its attentions, normalizations, matrices with their biases, and embeddings.

Of the canonical state and of a learner's module, each with what its path says about its place.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from scratch_transformer.kit.definitions import names_in, nodes_of, parameters_of
from scratch_transformer.kit.kind import LAYERS
from scratch_transformer.kit.resolve.names.inputs import input_of
from scratch_transformer.kit.resolve.names.roles import role_of
from scratch_transformer.kit.resolve.weights.layout import Parameters, walk
from scratch_transformer.kit.resolve.weights.unit import Unit, but_for, names_under, owner_and_name, put_together
from scratch_transformer.kit.resolve.weights.unnamed import told_by_shapes
from scratch_transformer.kit.syntax import nodes_in

LINEAR = (nn.Linear, nn.MultiheadAttention, nn.LazyLinear, nn.Embedding)
OF_ATTENTION = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer, nn.TransformerEncoder, nn.TransformerDecoder)
"""PyTorch's own, which have attention and more."""
Shapes = Mapping[str, tuple[int, ...]]
KindOf = Callable[[type], str | None]


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
    for unit in units.values():
        owner, _, name = unit.path.rpartition(".")
        if name in OF_SUBLAYERS and f"{owner}.cross_attn".strip(".") in units:
            unit.context = (*unit.context, OF_SUBLAYERS[name])
    return list(units.values())


OF_SUBLAYERS = {"norm1": "self", "norm2": "cross"}
"""The attention that a norm of a decoder's layer goes with: a learner's name may say that, wherever it is made."""


def _layer(path: str) -> int | None:
    """The number of the layer in a stack: layers.0.norm1, blks.block0.addnorm1."""
    match = re.search(r"(?:^|\.)(?:\w*(?:layer|block|blk|enc|dec|h)s?_?)?(\d+)(?=\.|$)", path, re.IGNORECASE)
    return int(match[1]) if match else None


NORM = r"norm|(^|[._])ln(?=[._\d]|$)"
CROSS = re.compile(
    r"cross|src_att|enc_?dec|encoder_?decoder|enc_?att|encoder_?att|(?<!masked_)(?<!self_)(?<!first_)multihead_attn|memory|dec_?enc|context|"
    r"inter_att|co_?att|mha2|att\w*_?2|second"
)

PROJECTION = re.compile(
    r"proj|prj|generator|head$|lm_head|fc_out|out$|logits|vocab|linear$|output$|output_?layer|out_?layer|unembed|"
    r"final|classifier"
)
LAST = re.compile(r"(^|[._])(head|out|output|output_layer|linear|fc|unembed\w*)$")
"""Outside of all layers, what gives the scores of the words."""


def _context(path: str, shared: str = "") -> tuple[str, ...]:
    """What a path says about the place, beside what all share: encoder, decoder, self, cross, source, target, final."""
    word, found = re.sub(r"\.(weight|bias)$", "", path.removeprefix(shared).lower()), []
    if re.search(r"(^|[._])(enc|encoder|encode)(?!_?\w*att)", word):
        found.append("encoder")
    both = re.search(r"enc_?dec|encoder_?decoder|dec_?enc", word)
    if re.search(r"(^|[._])(dec|decoder)(?!ode_)", word) and not both:
        found.append("decoder")
    if CROSS.search(word):
        found.append("cross")
    elif re.search(r"self|masked|mha1|att\w*_?1|slf|first", word):
        found.append("self")
    if re.search(r"(^|[._])(src|source|enc\w*_emb|encoder_emb|input_emb|inp)", word):
        found.append("source")
    if re.search(r"(^|[._])(tgt|trg|target|dec\w*_emb|decoder_emb|output_emb|tar)", word):
        found.append("target")
    for role, words in (("gate", r"gate|w_?g(?=[._]|$)"), ("up", r"(^|[._])up(?=[._]|$)|up_?proj"), ("down", "down")):
        if re.search(words, word):
            found.append(role)
    if re.search(r"pos(?!ition_?wise|_?ff|_?feed|t)", word):
        found.append("position")
    if re.search(r"emb|wte|lut|tok", word) and "unembed" not in word:
        found.append("embedding")
    is_last = _layer(path) is None and LAST.search(word)
    if is_last or PROJECTION.search(word):
        found.append("projection")
    return tuple(found)


# ---- A learner's units ----


def _shared(names: Iterable[str]) -> str:
    """The path that all matrices are in, which tells none from another: encoder_decoder.src_embed.weight, …"""
    paths = [name.split(".")[:-2] for name in names]
    alike = itertools.takewhile(lambda parts: len({*parts}) == 1, zip(*paths, strict=False))
    return "".join(f"{parts[0]}." for parts in alike)


def learner_units(parameters: Parameters, kind_of: KindOf, is_attention: bool) -> list[Unit]:
    """The units of a learner's module, in the order in which they were made. is_attention: as which it is tried."""
    attentions, is_raw = _attentions(parameters, kind_of, is_attention), raw_test(parameters)
    modules, shared = dict(walk(parameters.module)), _shared(parameters.positions)
    units: dict[str, Unit] = {}
    for name, positions in parameters.positions.items():
        home = next((path for path in attentions if name.startswith(f"{path}.") or not path), None)
        if home is not None and not _in_norm(name[len(home) :], modules.get(name.rpartition(".")[0]), kind_of):
            unit = units.setdefault(home, Unit("attention", home, [], (), _context(home, shared), _layer(home)))
            unit.names.append(name[len(home) + 1 :] if home else name)
            continue
        path, _, last = name.rpartition(".")
        if _in_norm("", modules.get(path), kind_of) and positions.numel() == max(positions.shape, default=1):
            positions = positions.flatten()  # a scale of shape (1, d_model)
        bias = positions.dim() == 1 and re.search(r"bias|beta|shift|(^|_)b(_?\d)?$", last) is not None
        raw = last not in ("weight", "bias") and positions.dim() >= 2
        matrix = None if raw else _matrix_of(name, parameters)
        key, bias = name if raw else matrix or path, bias or matrix is not None
        unit = units.setdefault(key, Unit("matrix", path, [], (), _context(name, shared), _layer(name)))
        unit.names.append(last)
        if not unit.shape or not bias:
            unit.shape, unit.raw = tuple(positions.shape), is_raw(name)
            unit.kind = "norm" if positions.dim() == 1 else "matrix"
    found = _with_beside(_with_heads(list(units.values()), parameters), parameters)
    found = _with_outputs(found, parameters)
    found = _with_halves(told_by_shapes(_written_out(found)))
    alone = tuple(f"{path}." for path in single_layers(parameters.module, kind_of))
    for unit in found:
        if unit.layer is None and f"{unit.path}.".startswith(alone):
            unit.layer = 0
    for unit in _of_the_model(found) if lone_attention(parameters.module, kind_of) else ():
        unit.layer = 0
    first = min((u.layer for u in found if u.kind == "attention" and u.layer is not None), default=0)
    for unit in found if first else ():  # block_1, block_2: counted from 1
        unit.layer = None if unit.layer is None else max(unit.layer - first, 0)
    if any(unit.layer is not None for unit in found):
        for unit in found:
            unit.context = _by_class(unit, modules.get(unit.path), kind_of)
    return found


OF_TORCH = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)


def single_layers(made: nn.Module, kind_of: KindOf) -> list[str]:
    """The paths of layers that a model has one of each, and no list of: self.encoder_block = EncoderBlock(…).

    None, if what has them counts: for _ in range(n): x = self.encoder_block(x).
    """
    parts = [(path, part) for path, part in made.named_modules() if path]
    if any(isinstance(part, nn.ModuleList) for _, part in parts):
        return []
    found = {p: type(m) for p, m in parts if isinstance(m, OF_TORCH) or (kind_of(type(m)) or "").endswith(LAYERS)}
    owners: set[Any] = {type(made.get_submodule(path.rpartition(".")[0])) for path in found}
    is_repeated = any(_counts(owner) for owner in owners)
    return [*found] if len({*found.values()}) == len(found) and not is_repeated else []


def lone_attention(made: nn.Module, kind_of: KindOf) -> str:
    """The path of the only attention of a model that has no layers, but is one itself, and looks up words; else "".

    Of one for each side of a translation too, where what is given the encoder's output may have two.
    """
    parts = [(path, part) for path, part in made.named_modules() if path]
    kinds = {path: kind_of(type(part)) or "" for path, part in parts}
    attends = [p for p, part in parts if isinstance(part, nn.MultiheadAttention) or kinds[p].endswith("Attention")]
    outer = [path for path in attends if not any(path.startswith(f"{other}.") for other in attends)]
    others = [part for path, part in parts if outer and not path.startswith(tuple(f"{one}." for one in outer))]
    has_layers = any(isinstance(part, (nn.ModuleList, *OF_TORCH)) for part in others)
    has_layers = has_layers or any(kind.endswith(LAYERS) for kind in kinds.values())
    if not _one_a_side(made, outer) or has_layers or not any(isinstance(part, nn.Embedding) for part in others):
        return ""
    owners: list[Any] = [type(made.get_submodule(path.rpartition(".")[0])) for path in outer]
    return "" if any(map(_counts, owners)) or any(is_repeated(made, path) for path in outer) else outer[0]


def _one_a_side(made: nn.Module, paths: Sequence[str]) -> bool:
    """Whether no module has two of what is at these paths, but one that takes memory, and only one besides has any."""
    owners = [path.rpartition(".")[0] for path in paths]
    counts = {path: owners.count(path) for path in owners}
    forwards = {path: made.get_submodule(path).forward for path in counts}
    crossing = [path for path, o in forwards.items() if any(input_of(p.name, ("memory",)) for p in parameters_of(o))]
    most = 2 if len(crossing) == 1 else 1
    return 0 < len(counts) <= most and all(count <= 1 + (path in crossing) for path, count in counts.items())


def _counts(owner: Any) -> bool:
    """Whether a class makes or calls its parts for each of a number: generate counts the words that it writes."""
    return any("range" in names_in(one) for one in _computing(owner))


def _computing(owner: Any) -> list[Any]:
    """The methods of a class but those that write text, in a loop over its words."""
    return [one for name, one in vars(owner).items() if callable(one) and not WRITES.match(name)]


WRITES = re.compile(r"_?(generate|sample|predict|complete|greedy|translate|beam|infer)")


LAST_NORM = re.compile(r"final|last|(norm|ln)_?f$")


def _of_the_model(units: list[Unit]) -> list[Unit]:
    """Of a model that is its only layer: its attention, two norms, and the matrices between; of each side of it."""
    outside = {"embedding", "projection", "position"}
    own = [unit for unit in units if unit.layer is None and not outside & {*unit.context}]
    norms = [unit for unit in own if unit.kind == "norm" and not LAST_NORM.search(unit.path.lower())]
    attends = [unit.path.rpartition(".")[0] for unit in own if unit.kind == "attention"]
    beside = [[norm for norm in norms if norm.path.rpartition(".")[0] == owner] for owner in dict.fromkeys(attends)]
    of_layers = [some[: attends.count(owner) + 1] for owner, some in zip(dict.fromkeys(attends), beside, strict=True)]
    first = norms[:2] if len(attends) < 2 else itertools.chain(*of_layers)
    return [*(unit for unit in own if unit.kind != "norm"), *first]


def is_repeated(made: nn.Module, path: str) -> bool:
    """Whether the module that has a layer calls it in a loop: for _ in range(n): x = self.layer(x)."""
    owner, _, name = path.rpartition(".")
    nodes = [node for one in _computing(type(made.get_submodule(owner))) for node in nodes_of(one)]
    loops = [node for node in nodes if isinstance(node, (ast.For, ast.While))]
    calls = [node.func for loop in loops for node in nodes_in(loop, ast.Call)]
    return any(isinstance(call, ast.Attribute) and call.attr == name for call in calls)


BY_CLASS = {"Embedding": "embedding", "Linear": "projection"}
OF_SCORES = re.compile(r"(^|[._])out(put)?_?emb\w*$")
"""The embedding of a decoder's words, or what gives their scores."""


def _by_class(unit: Unit, module: nn.Module | None, kind_of: KindOf) -> tuple[str, ...]:
    """Outside of all layers classes, torch's or the learner's own, say what is an embedding and what a projection, W_o,
    where no name does, or one that means both: output_embeddings = Linear(d_model, vocab_size).
    """
    said = {"embedding", "projection", "position"} & set(unit.context)
    means_both = OF_SCORES.search(unit.path.lower()) is not None
    if unit.layer is not None or module is None or (said and not means_both):
        return unit.context
    kind = next((kind for kind in BY_CLASS if isinstance(module, getattr(nn, kind))), kind_of(type(module)) or "")
    rest = [word for word in unit.context if not (means_both and word in BY_CLASS.values())]
    return (*rest, BY_CLASS[kind]) if kind in BY_CLASS else unit.context


def _with_halves(units: list[Unit]) -> list[Unit]:
    """Gate and the other factor in one matrix, (2 d_ff, d_model) before (d_model, d_ff), as two units."""
    found: list[Unit] = []
    is_network = not any(unit.kind == "attention" for unit in units)  # net.0 and net.1 are no layers of a stack
    for unit in units:
        rows, width = unit.shape if unit.kind == "matrix" and len(unit.shape) == 2 and not unit.raw else (1, 0)
        within = [other for other in units if is_network or other.layer == unit.layer]
        shapes = [other.shape for other in within if other.kind == "matrix"]
        half = rows // 2
        if rows % 2 or half == width or (width, half) not in shapes or (half, width) in shapes:
            found.append(unit)
            continue
        found += [
            replace(unit, shape=(half, width), half=number, context=(*unit.context, word))
            for number, word in enumerate(("gate", "up"))
        ]
    return found


def _with_beside(units: list[Unit], parameters: Parameters) -> list[Unit]:
    """Attentions that project nothing but their output get the projections that are made beside them.

    W_q, W_k, W_v of a layer, or W_q_1, W_k_1, W_v_1 for its mha_1.
    """
    for attention in [unit for unit in units if unit.kind == "attention" and unit.path]:
        matrices = [name for name in attention.names if parameters.positions[attention.full(name)].dim() >= 2]
        if len(matrices) != 1:
            continue
        owner, _, name = attention.path.rpartition(".")
        siblings = [unit for unit in units if unit.kind == "matrix" and unit.path.rpartition(".")[0] == owner]
        roles = [(role_of(unit.path.rpartition(".")[2]), unit) for unit in siblings]
        number = "".join(re.findall(r"\d+$", name))
        several = {role for role, _ in roles if sum(role == other for other, _ in roles) > 1}
        own = {r: u for r, u in roles if r in ("q", "k", "v") and (not several or u.path.endswith(number or "_"))}
        if own.keys() == {"q", "k", "v"} and len(own) == 3:
            attention.layer = _layer(owner)
            attention.path, attention.names = owner, names_under(owner, (*own.values(), attention))
            units = but_for(units, [*own.values()])
    return units


def _with_heads(units: list[Unit], parameters: Parameters) -> list[Unit]:
    """Narrow attentions in a list, and the matrix beside the list that mixes what they give, are one with its heads."""
    lists: dict[str, list[Unit]] = {}
    for unit in units:
        path, _, last = unit.path.rpartition(".")
        if unit.kind == "attention" and last.isdigit() and path:
            lists.setdefault(path, []).append(unit)
    for path, heads in lists.items():
        owner, queries = path.rpartition(".")[0], [n for n in heads[0].names if role_of(n) == "q" and "bias" not in n]
        shape = tuple(parameters.positions[heads[0].full(queries[0])].shape) if len(queries) == 1 else ()
        if len(shape) != 2 or len(heads) == 1:
            continue
        mixing = (shape[1], len(heads) * shape[0])
        spare = [u for u in units if u.kind == "matrix" and owner_and_name(u)[0] == owner and u.shape == mixing]
        if len(spare) == 1:
            parts = (*heads, *spare)
            made = Unit("attention", owner, names_under(owner, parts), (), _context(path), _layer(owner))
            units = put_together(units, parts, made)
    return units


def _with_outputs(units: list[Unit], parameters: Parameters) -> list[Unit]:
    """Attentions that do not project their output get what the layer does that with, beside them: self.z_linear.

    Where a layer has as many matrices of that shape as such attentions.
    """
    without: dict[str, list[Unit]] = {}
    for unit in units:
        if unit.kind == "attention" and unit.path:
            roles = {role_of(name) for name in unit.names}
            if {"q", "k", "v"} <= roles and not roles & {"o", None}:
                without.setdefault(unit.path.rpartition(".")[0], []).append(unit)
    for owner, attentions in without.items():
        first = next(name for name in attentions[0].names if role_of(name) == "q" and not name.endswith("bias"))
        shape = tuple(parameters.positions[attentions[0].full(first)].shape)
        spare = [u for u in units if u.kind == "matrix" and not u.raw and u.path.rpartition(".")[0] == owner]
        spare = [u for u in spare if _may_follow(shape, u.shape, True) and "embedding" not in u.context]
        if len(spare) == len(attentions):
            for attention, output in zip(attentions, spare, strict=True):
                attention.path, attention.names = owner, names_under(owner, (attention, output))
            units = but_for(units, spare)
    return units


def _written_out(units: list[Unit]) -> list[Unit]:
    """Projections of queries, keys and values that a layer has of its own, and its own output's, as one attention.

    Of a layer that attends twice, self_q, self_k, self_v and cross_q, cross_k, cross_v, as two.
    """
    groups: dict[tuple[str, str], dict[str, Unit]] = {}
    shared = _shared(unit.full(name) for unit in units for name in unit.names)
    for unit in units:
        owner, name = owner_and_name(unit)
        role = role_of(name) if unit.kind == "matrix" and "embedding" not in unit.context else None
        stem = "".join(word for word in re.findall(r"[a-z]+|\d+", name.lower()) if word in WHICH)
        if role is not None and (role != "qkv" or PACKED.search(name.lower())):
            groups.setdefault((owner, stem), {}).setdefault(role, unit)
    _name_outputs(units, groups)
    for (owner, stem), own in groups.items():
        if not ({"q", "k", "v"} <= own.keys() or "qkv" in own or {"q", "kv"} <= own.keys()):
            continue
        first = own.get("q") or own["qkv"]
        output = own.get("o") or groups.get((owner, ""), {}).get("o")
        if "qkv" in own and output is not None and len(set(output.shape)) > 1:
            continue  # W_in and W_out of a feed-forward network
        parts = [own[role] for role in ("q", "k", "v", "kv", "qkv") if role in own]
        parts += [output] if output is not None and _may_follow(first.shape, output.shape, "q" in own) else []
        context = (*_context(owner, shared), *_context(stem))
        made = Unit("attention", owner, names_under(owner, parts), (), context, _layer(owner))
        units = put_together(units, parts, made)
    return units


def _name_outputs(units: list[Unit], groups: dict[tuple[str, str], dict[str, Unit]]) -> None:
    """Gives every attention of a layer its output's projection, whatever that is called: W_reshape_back.

    Where a layer has as many matrices of that shape as attentions without one, and what they are is not said.
    """
    named = [unit for own in groups.values() for unit in own.values()]
    for owner in dict.fromkeys(owner for owner, _ in groups):
        beside = [own for (other, _), own in groups.items() if other == owner]
        without = [own for own in beside if {"q", "k", "v"} <= own.keys()]
        if not without or any("o" in own for own in beside):
            continue
        spare = [unit for unit in units if unit.kind == "matrix" and owner_and_name(unit)[0] == owner]
        spare = [unit for unit in but_for(spare, named) if not unit.raw]
        spare = [unit for unit in spare if _may_follow(without[0]["q"].shape, unit.shape, True)]
        if len(spare) == len(without):
            for own, unit in zip(without, spare, strict=True):
                own["o"] = unit


PACKED = re.compile(r"qkv|kqv|qvk|vkq|att")
"""In the name of queries, keys and values in one matrix; W_in may be a feed-forward network's."""


def _may_follow(first: tuple[int, ...], last: tuple[int, ...], is_single: bool) -> bool:
    """Whether a matrix has the shape of an attention's output, beside that of its queries, or of all in one."""
    if is_single:
        return sorted(first) == sorted(last)
    return len(last) == 2 and bool({*first} & {*last}) and max(last) <= max(first)


WHICH = ("self", "cross", "masked", "enc", "dec", "encoder", "decoder", "memory", "src", "tgt", "1", "2")
"""Words for one of two attentions in the names of their projections."""


def _matrix_of(name: str, parameters: Parameters) -> str | None:
    """The bare matrix that a bare bias belongs to: W_in of b_in, weight1 of bias1."""
    path, _, last = name.rpartition(".")
    if parameters.positions[name].dim() != 1:
        return None
    rest = re.sub(r"^(bias|b)_?|_?(bias|b)$", "", last.lower(), count=1)
    for other, positions in parameters.positions.items():
        there, _, word = other.rpartition(".")
        if there == path and positions.dim() >= 2 and word != "weight":
            stem = re.sub(r"^(weights?|w)_?|_?(weights?|w)$", "", word.lower(), count=1)
            if stem == rest and rest != last.lower():
                return other
    return None


def _in_norm(name: str, owner: nn.Module | None, kind_of: KindOf) -> bool:
    """Whether a parameter within an attention belongs to a normalization there, which no nn.Linear is: ln4."""
    known = kind_of(type(owner)) or ""
    if isinstance(owner, nn.Linear) or known == "Linear":
        name = ".".join(name.split(".")[:-2])  # what it is in
    is_norm = isinstance(owner, nn.LayerNorm) or known.endswith("Norm")
    return is_norm or re.search(NORM, name.lower()) is not None


def _attentions(parameters: Parameters, kind_of: KindOf, is_attention: bool) -> list[str]:
    """The paths of the modules that are attentions: of a class known as one, or named so with weights q, k and v.

    The whole is one where it is tried as one: what is guessed of its class first may be wrong.
    """
    found: list[str] = []
    for path, module in walk(parameters.module):
        if any(path.startswith(f"{other}.") for other in found) or not (path or is_attention):
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
        looks_so = looks_so and not known.endswith(LAYERS)  # attention2 = EncoderBlock(…), which is given the memory
        looks_so = looks_so and not isinstance(module, OF_ATTENTION)  # attention = nn.TransformerEncoderLayer(…)
        if is_known or looks_so:
            found.append(path)
    return found


def _has_roles(names: list[str]) -> bool:
    names = [name for name in names if not re.search(NORM, name.lower())]
    if len(names) > 60:
        return False
    roles = {role_of(name) for name in names}
    weights = [name for name in names if not name.endswith("bias")]
    return {"q", "k", "v"} <= roles or "qkv" in roles or {"q", "kv"} <= roles or len(weights) == 4


def raw_test(parameters: Parameters, path: str = "") -> Callable[[str], bool]:
    """Is a parameter bare, used as x @ W perhaps, and no nn.Linear's, nn.Embedding's, or that of a class like them?"""
    modules = dict(walk(parameters.module))

    def is_raw(name: str) -> bool:
        full = f"{path}.{name}" if path else name
        owner = modules.get(full.rpartition(".")[0])
        if isinstance(owner, LINEAR):
            return False
        return owner is None or owner is parameters.module or not multiplies_by_transpose(owner)

    return is_raw


def multiplies_by_transpose(module: nn.Module) -> bool:
    """Whether a class of the learner's with one matrix computes x Wᵀ, as nn.Linear does: seen by calling it."""
    matrices = [p for p in module.parameters() if p.dim() == 2]
    if len(matrices) != 1 or len(list(module.parameters())) > 2:
        return False
    W = matrices[0]
    x = torch.linspace(-1, 1, 2 * W.shape[1], dtype=W.dtype).reshape(1, 2, -1)
    kept = W.data
    try:
        with torch.no_grad():
            W.data = torch.sin(torch.arange(W.numel(), dtype=W.dtype)).reshape(W.shape)
            difference = module(x)[0, 0] - module(x)[0, 1] - (x[0, 0] - x[0, 1]) @ W.T
            return bool(difference.abs().max() < 1e-6)
    except Exception:  # the learner's code may raise anything
        return False
    finally:
        W.data = kept
