"""Which of the right designs a candidate can have: by its parameters, its settings and the form of its output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from scratch_transformer.conformance.kit.kind import Diagnosis, Finding
from scratch_transformer.conformance.kit.mistakes import MISTAKES
from scratch_transformer.conformance.kit.recipe import RIGHT, Recipe
from scratch_transformer.conformance.kit.session import STRUCTURE, Session

Design = tuple[str, dict[str, Any]]
FROM_PARTS = ("activation", "norm_order", "positions", "embedding_scale", "wrapped")
"""Choices of a composite that its parts show."""


def possible(session: Session, parts: Sequence[Diagnosis] = ()) -> list[Design]:
    """Designs that nothing speaks against; what the parts show comes first."""
    designs = [(name, dict(changes)) for name, changes in session.kind.designs.items()]
    if len(designs) == 1:
        return designs
    for keeps in (_fits_parameters(session, designs), _fits_settings(session), _fits_output(session)):
        designs = [design for design in designs if keeps(design)] or designs
    shown = shown_by(parts)
    return sorted(designs, key=lambda design: sum(shown.get(name, value) != value for name, value in design[1].items()))


def shown_by(parts: Sequence[Diagnosis]) -> dict[str, Any]:
    """The choices of the parts that were understood, where they agree."""
    shown: dict[str, Any] = {}
    relevant = {"FeedForward": ("activation",), "PositionalEncoding": ("positions",)}
    for part in parts:
        if part.verdict == "unknown mismatch":
            continue
        for name in relevant.get(part.kind, ()):
            shown.setdefault(name, getattr(part.recipe, name))
        if part.kind.endswith(("Layer", "Connection")):
            shown.setdefault("norm_order", part.recipe.norm_order)
            if part.kind.endswith("Layer"):
                shown.setdefault("activation", part.recipe.activation)
    return shown


def _fits_parameters(session: Session, designs: list[Design]) -> Any:
    """Weights that only some designs have must be there, or missing, as the design says."""
    kind, settings = session.kind, session.settings
    weights: dict[tuple[tuple[str, Any], ...], set[str]] = {}

    def of(changes: dict[str, Any]) -> set[str]:
        structural = {n: v for n, v in changes.items() if n in STRUCTURE}
        key = tuple(sorted(structural.items()))
        if key not in weights:
            state = kind.build(settings, RIGHT.with_(structural)).state_dict()
            weights[key] = {name for name in state if name.endswith("weight")}
        return weights[key]

    every = [of(changes) for _, changes in designs]
    shared = {name for name in every[0] if all(name in names for names in every)}
    optional = {name for names in every for name in names} - shared
    present = optional - session.candidate.missing
    return lambda design: of(design[1]) & optional == present


def _fits_settings(session: Session) -> Any:
    """norm_first and activation, if the learner's class has such arguments."""
    given = session.candidate.settings
    wanted: dict[str, Any] = {}
    if isinstance(given.get("norm_first"), bool):
        wanted["norm_order"] = "pre" if given["norm_first"] else "post"
    if given.get("activation") in ("relu", "gelu"):
        wanted["activation"] = given["activation"]
    return lambda design: all(design[1].get(name, value) == value for name, value in wanted.items())


def _fits_output(session: Session) -> Any:
    """Probabilities sum to one, log-probabilities to one after exp."""
    outputs = [result.output.double() for result in session.ran if result.output is not None]
    kind = "logits"
    if outputs and all(o.dim() > 0 for o in outputs):
        if all(_near_one(o.exp().sum(-1)) for o in outputs):
            kind = "log-probabilities"
        elif all(_near_one(o.sum(-1)) and bool((o >= 0).all()) for o in outputs):
            kind = "probabilities"
    return lambda design: design[1].get("output", kind) == kind


def _near_one(sums: torch.Tensor) -> bool:
    return bool(((sums - 1).abs() < 1e-4).all())


def design_notes(session: Session, recipe: Recipe, design: str) -> Iterator[Finding]:
    """Entries of the catalogue that a right design amounts to: pre-norm, GELU, no final norms."""
    changes = session.kind.designs[design]
    for id, _, only in (name.partition(":") for name in session.kind.mistakes):
        for form, entries in MISTAKES[id].changes.items():
            is_design = entries.items() <= changes.items() and not (id == "E2" and recipe.positions == "learned")
            departs = any(getattr(RIGHT, name) != value for name, value in entries.items()) or len(entries) > 1
            if is_design and departs and (not only or form == only):
                finding = Finding(MISTAKES[id], "It agrees with PyTorch's, set up in this way.", form)
                if finding.severity != "mistake":
                    yield finding
