"""Which of the right designs a candidate can have: by its parameters, its settings and the form of its output."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from scratch_transformer.kit.definitions import is_of_torch, names_in
from scratch_transformer.kit.judge.session import Session
from scratch_transformer.kit.judge.variants import Variants
from scratch_transformer.kit.kind import Diagnosis, Finding, Kind, Settings
from scratch_transformer.kit.kinds.choices import Choices
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.embedding import NO_POSITIONS
from scratch_transformer.kit.recipe import RIGHT, Recipe

Design = tuple[str, dict[str, Any]]
Keeps = Callable[[Design], bool]
OF_A_SUBLAYER = re.compile(r"\.norm[123]\.")
OF_LAYERS = ("norm_order", "activation", "norm_kind", "rotary")
SHOWN = {
    **dict.fromkeys(("FeedForward", "SwiGLU"), ("activation",)),
    **dict.fromkeys(("LayerNorm", "RMSNorm"), ("norm_kind",)),
    **dict.fromkeys(("RotaryEmbedding", "RotaryAttention", "CausalRotaryAttention"), ("rotary",)),
    **dict.fromkeys(("MultiheadAttention", "SelfAttention", "CausalSelfAttention", "CrossAttention"), ("rotary",)),
    "PositionalEncoding": ("positions",),
    **dict.fromkeys(("InputEmbedding", "Embedding"), ("embedding_scale",)),
    "ResidualConnection": ("norm_order",),
    **dict.fromkeys(("EncoderLayer", "DecoderOnlyLayer", "LlamaBlock", "MaskedLlamaBlock", "Encoder"), OF_LAYERS),
    **dict.fromkeys(("DecoderLayer", "Decoder"), (*OF_LAYERS, "parts")),
    "TokenEncoder": (*OF_LAYERS, "embedding_scale", "positions"),
    "TokenDecoder": (*OF_LAYERS, "embedding_scale", "positions", "parts"),
}
"""Choices of a whole that its parts show."""


def possible(
    variants: Variants,
    missing: Collection[str],
    outputs: Sequence[Tensor],
    shown: Mapping[str, Any],
    has_bare_norms: bool = False,
) -> list[Design]:
    """Designs that nothing speaks against; what the parts show comes first.

    missing: canonical parameters that the candidate has no place for. outputs: what it gave. has_bare_norms: whether
    norms may be there without weights.
    """
    every = variants.kind.designs
    if isinstance(every, Choices):  # what speaks against an option of one choice does whatever the others are
        every = every.narrowed(lambda options: dict(_fitting(variants, options, missing, outputs, has_bare_norms)))
    designs = _fitting(variants, every, missing, outputs, has_bare_norms)
    return sorted(designs, key=lambda design: against(design, shown))


def _fitting(
    variants: Variants,
    some: Mapping[str, Mapping[str, Any]],
    missing: Collection[str],
    outputs: Sequence[Tensor],
    has_bare_norms: bool,
) -> list[Design]:
    """Those of some designs that nothing speaks against; all, where something speaks against each."""
    designs = [(name, dict(changes)) for name, changes in some.items()]
    if len(designs) == 1:
        return designs
    designs = [design for design in designs if _fits_width(design, variants.settings, outputs)] or designs
    of_masks = [_fits_half(outputs)] if variants.kind.name == "CausalMask" else []
    of_masks = [_fits_added] if _are_added_masks(variants.kind, outputs) else of_masks
    of_outputs = (_fits_output(outputs), *of_masks)
    for keeps in (
        _fits_parameters(variants, designs, missing, has_bare_norms),
        _fits_settings(variants.settings),
        *of_outputs,
    ):
        designs = [design for design in designs if keeps(design)] or designs
    return designs


def against(design: Design, shown: Mapping[str, Any]) -> int:
    """How many choices of a design the parts speak against."""
    return sum(shown.get(name, value) != value for name, value in design[1].items())


ACTIVATIONS = {"silu": re.compile("silu|swish"), "gelu": re.compile("gelu"), "relu": re.compile("relu")}


def said_by(module: nn.Module | None) -> dict[str, Any]:
    """The choice that the words of a module show: an activation, where there is a word of one alone."""
    types = frozenset(type(part) for part in module.modules()) if module is not None else frozenset()
    return _said(types)


@functools.lru_cache(maxsize=1024)
def _said(types: frozenset[type]) -> dict[str, Any]:
    names = {n.lower() for cls in types for n in (cls.__name__, *(() if is_of_torch(cls) else names_in(cls)))}
    said = [activation for activation, words in ACTIVATIONS.items() if any(map(words.search, names))]
    return {"activation": said[0]} if len(said) == 1 else {}


def is_near(design: Design, said: Mapping[str, Any]) -> bool:
    """Whether a design has the choices that words show, in some form: GELU may be computed by tanh."""
    return all(str(design[1].get(name, value)).startswith(value) for name, value in said.items())


def is_evident(variants: Variants, entries: Mapping[str, Any], missing: Collection[str]) -> bool:
    """Whether weights that a candidate has no place for show a mistake: one norm for all sublayers of a layer.

    Where two of three norms are missing, it is one norm for all three, not one for two of them.
    """
    if entries == {"memory_norm": "own"}:
        added = {name for name in variants.weights(RIGHT.with_(entries)) if "norm_memory" in name}
        return bool(added) and not added & set(missing)
    if entries.keys() != {"norms"}:
        return False
    design = next(iter(variants.kind.designs.values()))
    own, fewer = (variants.weights(RIGHT.with_({**design, **changes})) for changes in ({}, entries))
    norms = {name for name in fewer if OF_A_SUBLAYER.search(f".{name}")}
    return bool(own - fewer) and own - fewer <= set(missing) and not norms & set(missing)


def of_session(session: Session, parts: Sequence[Diagnosis] = ()) -> list[Design]:
    """The possible designs of what was run."""
    candidate = session.candidate
    outputs = [result.output for result in session.ran if result.output is not None]
    shown = {**shown_by(parts), **candidate.shown}
    designs = possible(session.variants, candidate.missing, outputs, shown, candidate.has_bare_norms)
    is_to_hide = candidate.is_causal_by_name and not candidate.speaks_of_padding  # causal_attention(q, k, v)
    if session.kind.name == "ScaledDotProductAttention" and is_to_hide:
        return [design for design in designs if "unmasked" in design[1]]
    return designs


def shown_by(parts: Sequence[Diagnosis]) -> dict[str, Any]:
    """The choices of the parts that were understood, where they agree."""
    found: dict[str, set[Any]] = {}
    for part in parts:
        names = SHOWN.get(part.kind, ()) if part.verdict != "unknown mismatch" else ()
        for name in names:
            found.setdefault(name, set()).add(getattr(part.recipe, name))
    return {name: values.pop() for name, values in found.items() if len(values) == 1}


def _fits_parameters(
    variants: Variants, designs: list[Design], missing: Collection[str], has_bare_norms: bool
) -> Keeps:
    """Weights that only some designs have are there, or missing, as the design says; if none does, as far as can be.

    One norm in place of two may be a design or a mistake: numbers tell.
    has_bare_norms: of norms without weights, numbers tell.
    """
    weights = {name: variants.weights(RIGHT.with_({**changes, "norms": "own"})) for name, changes in designs}
    distinct = set(weights.values())
    optional = frozenset.union(*distinct) - frozenset.intersection(*distinct)
    if has_bare_norms:
        optional = frozenset(name for name in optional if "norm" not in name or name not in missing)
    misfits = {some: len((some & optional) ^ (optional - set(missing))) for some in distinct}
    fits = {some for some in distinct if misfits[some] == min(misfits.values())}
    return lambda design: weights[design[0]] in fits


def _fits_settings(settings: Settings) -> Keeps:
    """norm_first and activation, if the learner's class has such arguments."""
    wanted: dict[str, Any] = {}
    if isinstance(settings.get("norm_first"), bool):
        wanted["norm_order"] = "pre" if settings["norm_first"] else "post"
    if settings.get("activation") in ("relu", "gelu"):
        wanted["activation"] = settings["activation"]
    return lambda design: all(design[1].get(name, value) == value for name, value in wanted.items())


def _fits_width(design: Design, settings: Mapping[str, Any], outputs: Sequence[Tensor]) -> bool:
    """Whether there is a projection at the end shows in the number of features, whatever weights it may share."""
    words = settings.get("vocab_size", settings.get("tgt_vocab_size"))
    wide = words if design[1].get("head") else settings.get("d_model")
    return "head" not in design[1] or all(output.shape[-1:] == (wide,) for output in outputs)


def _fits_output(outputs: Sequence[Tensor]) -> Keeps:
    """Probabilities sum to one, log-probabilities to one after exp."""
    doubles = [output.double() for output in outputs]
    kind = "logits"
    if doubles and all(o.dim() > 0 for o in doubles):
        if all(_near_one(o.exp().sum(-1)) for o in doubles):
            kind = "log-probabilities"
        elif all(_near_one(o.sum(-1)) and bool((o >= 0).all()) for o in doubles):
            kind = "probabilities"
    return lambda design: design[1].get("output", kind) == kind


def over_tokens(outputs: Sequence[Tensor]) -> str:
    """The form of output whose softmax goes over the tokens, if that is what they show; else ""."""
    several = [output.double() for output in outputs if output.dim() == 3 and output.shape[1] > 1]
    if several and all(bool((o >= 0).all()) and _near_one(o.sum(1)) for o in several):
        return "probabilities over the tokens"
    if several and all(_near_one(o.exp().sum(1)) for o in several):
        return "log-probabilities over the tokens"
    return ""


def _fits_half(outputs: Sequence[Tensor]) -> Keeps:
    """True above the diagonal of a causal mask means blocked, True below it that one may attend."""
    square = [output for output in outputs if output.dim() > 1 and output.shape[-1] > 1]
    corners = {(bool(output[..., 0, -1].any()), bool(output[..., -1, 0].any())) for output in square}
    blocked = {(True, False): "True", (False, True): "False"}.get(*corners) if len(corners) == 1 else None
    return lambda design: blocked is None or design[1].get("blocked_is") == blocked


def _are_added_masks(kind: Kind, outputs: Sequence[Tensor]) -> bool:
    """Whether they are of a mask that is added, which leaves no choice of what blocks: -∞ does."""
    return kind.name.endswith("Mask") and bool(outputs) and all(output.is_floating_point() for output in outputs)


def _fits_added(design: Design) -> bool:
    return bool(design[1].get("blocked_is") == "False")


def _near_one(sums: torch.Tensor) -> bool:
    return bool(((sums - 1).abs() < 1e-4).all())


def undecided(kind: Kind, design: str, changed: Collection[str]) -> list[str]:
    """The designs that differ in nothing but entries that mistakes change: which of them it was, no number shows."""
    own = _without(kind.designs[design], changed)
    return [name for name, entries in kind.designs.items() if _without(entries, changed) == own]


def _without(entries: Mapping[str, Any], changed: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in entries.items() if name not in changed}


def as_far_as_shown(kind: Kind, design: str, recipe: Recipe, changed: Collection[str]) -> str:
    """Of the undecided designs, the one with most of a recipe, else the first: of no activation, the paper's ReLU."""
    if not kind.designs.get(design, {}).keys() & changed:
        return design
    return max(undecided(kind, design, changed), key=lambda name: _has(kind.designs[name], recipe))


def words_of(kind: Kind, design: str, recipe: Recipe, changed: Collection[str]) -> str:
    """A design in words, without those that mistakes leave undecided: what has no activation has no GELU."""
    entries = kind.designs.get(design, {})
    changed = {name for name in entries.keys() & changed if getattr(recipe, name) != entries[name]}
    if not changed:
        return design
    alike = [name.split(", ") for name in undecided(kind, design, changed)]
    return ", ".join(word for word in design.split(", ") if all(word in words for words in alike))


def _has(entries: Mapping[str, Any], recipe: Recipe) -> int:
    return sum(getattr(recipe, name) == value for name, value in entries.items())


def design_notes(session: Session, recipe: Recipe, design: str) -> Iterator[Finding]:
    """Entries of the catalogue that a right design amounts to, unless a mistake is in its place: pre-norm, GELU."""
    changes = session.kind.designs[design]
    agrees = recipe == RIGHT.with_(changes)  # nothing else is named
    said = "It agrees with PyTorch's, set up in this way." if agrees else "PyTorch's can be set up in this way, too."
    ends = {side: dict(own).get("final_norm") for side, own in recipe.parts}
    bare = [side for side, ends_in_norm in ends.items() if ends_in_norm is False] if True in ends.values() else []
    module = session.candidate.module
    are_lent = any("pos" in name.lower() for name in session.candidate.replaced)  # what adds positions may scale, too
    are_lent |= module is not None and any(getattr(type(part), "is_lent", False) for part in module.modules())
    for id, one, only in (name.partition(":") for name in session.kind.mistakes):
        for form, entries in MISTAKES[id].changes.items():
            if (changes.get("gated") and id == "B8") or (changes.get("norm_order") == "parallel" and id == "B15"):
                continue  # SiLU is what a gate has, and one norm what two sublayers side by side have
            is_design = entries.items() <= changes.items() and _has(entries, recipe) == len(entries)
            is_design = is_design and not (id == "E2" and (recipe.positions == "learned" or are_lent))
            departs = any(getattr(RIGHT, name) != value for name, value in entries.items()) or len(entries) > 1
            if is_design and departs and (not one or form == only):
                part = bare[0] if bare and "final_norm" in entries else ""
                finding = Finding(MISTAKES[id], said, form, part=part)
                if finding.severity != "mistake":
                    yield finding
    has_none = "norm_order" in changes and recipe.positions == recipe.rotary == "none"
    if has_none and not session.candidate.replaced and not session.candidate.takes_vectors:
        yield Finding(MISTAKES["P13"], "It agrees with PyTorch's without any positions.", NO_POSITIONS)
