"""The numbers that show a mistake, in a sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scratch_transformer.kit.canonical.core import scale
from scratch_transformer.kit.judge.places import Change
from scratch_transformer.kit.judge.session import Session, distance
from scratch_transformer.kit.mistakes.embedding import DIVIDED
from scratch_transformer.kit.recipe import RIGHT, Recipe

ROUNDING = 1e-12
"""Relative errors below this come from the order of additions."""


def evidence(session: Session, change: Change, design: Recipe, ids: Sequence[str] = (), name: str = "") -> str:
    """What was measured, where this mistake shows in a single number, and how far off the outputs are.

    ids: of all mistakes that were found together. Of several, the outputs show the sum. name: this one's among them.
    """
    special = SPECIAL.get(change.id)
    own = special(session, change) if special else ""
    said = (own, _general(session, design), _alone(session, change, design, ids, name or change.id))
    return " ".join(filter(None, said))


def _alone(session: Session, change: Change, design: Recipe, ids: Sequence[str], name: str) -> str:
    """How far off the outputs are for one mistake of several; "" where there is no other."""
    every = [*dict.fromkeys(ids)]
    if len(every) < 2:
        return ""
    together = f"That is what {', '.join(every[:-1])} and {every[-1]} make together"
    recipe = design.with_(dict(change.entries))
    probes = [result.probe for result in session.ran if result.probe.is_ordinary and not change.part]
    errors = [distance(session.variant(recipe, probe), session.variant(design, probe), probe) for probe in probes]
    largest = max(errors, default=float("inf"))
    return (
        f"{together}; on ordinary input, {name} alone makes {share(largest)}."
        if largest < float("inf")
        else f"{together}."
    )


def _general(session: Session, design: Recipe) -> str:
    error, result = session.worst(design)
    if result is None:
        return ""
    against = session.kind.builtin or "the reference"
    if {"next_logits", "text"} & {*session.kind.inputs} and error >= ROUNDING:
        return f"With {result.probe.shows}, it writes other ids than {against}."
    if error == float("inf"):
        return f"With {result.probe.shows}, shape or NaNs differ from {against}'s."
    if error < ROUNDING:
        return f"It agrees with {against}, set up in this way."
    said = f"With {result.probe.shows}, its output differs from {against}'s by {share(error)}"
    usual, ordinary = (error, None) if result.probe.is_ordinary else session.worst(design, ordinary=True)
    return f"{said}." if ordinary is None else f"{said}; with {ordinary.probe.shows}, by {share(usual)}."


def share(error: float) -> str:
    """0.043 -> "4.3 % of the largest value"; 2.5 -> "2.5 times the largest value"; 1e-16 -> "rounding"."""
    if error < ROUNDING:
        return "rounding"
    percent = f"{100 * error:.2g}".replace("1e+02", "100")
    return f"{percent} % of the largest value" if error < 1 else f"{error:.2g} times the largest value"


ALONE = 0.01
"""How near a ratio is to the one of a mistake, where no other mistake changes it."""


def _unbiased(session: Session, change: Change) -> str:
    n = session.settings["d_model"]
    ratio = math.sqrt((n - 1) / n)
    measured = _ratio(session, "ordinary")
    is_alone = measured is not None and abs(measured / ratio - 1) < ALONE
    seen = f"Its normalized values are {measured:.6f} times PyTorch's; " if is_alone else ""
    return f"{seen}√((n - 1)/n) is {ratio:.6f} for n = {n}."


def _eps_outside(session: Session, change: Change) -> str:
    measured = _ratio(session, "shrinking")
    return (
        f"For the token with the smallest deviation it gives {measured:.4g} times PyTorch's values." if measured else ""
    )


def _ratio(session: Session, probe: str) -> float | None:
    """Of the last token's normalized features, the candidate's to the builtin's."""
    result = next((r for r in session.ran if r.probe.name == probe), None)
    if result is None or result.output is None or session.kind.name not in ("LayerNorm", "RMSNorm"):
        return None
    expected = session.builtin(RIGHT, result.probe)
    if expected is None or expected.shape != result.output.shape:
        return None
    bias = session.state.get("bias", 0.0)
    theirs, right = (x[-1, -1].double() - bias for x in (result.output, expected))
    return ((theirs @ right) / (right @ right)).item()


def _scaled(session: Session, change: Change) -> str:
    settings, entries = session.settings, dict(change.entries)
    h = settings["num_heads"]
    d_k = settings.get("d_k") or settings["d_model"] // h
    if "scale" not in entries:
        return ""
    here = scale(Recipe(scale=entries["scale"]), d_k, h, 7, settings.get("d_model", 0), 2)
    of = {"1/sqrt(S)": " (for 7 keys)", "1/sqrt(B)": " (for 2 samples)"}.get(str(entries["scale"]), "")
    what = "scores" if "scale_place" not in entries else "weights, after the softmax,"
    return f"The {what} are multiplied by {here:.4g}{of}; 1/√d_k is {d_k**-0.5:.4g} for d_k = {d_k}."


def _drowned(session: Session, change: Change) -> str:
    """What is left of embeddings that are divided, as they are drawn, beside the sines that are added to them."""
    if change.form != DIVIDED:
        return ""
    d_model, names = session.settings["d_model"], [n for n in session.asked if n in WORDS]
    first = session.candidate.first(names[0]) if names else None
    drawn = 1.0 if first is None or not bool(first.isfinite().all()) else first.double().std().item()
    here = drawn / math.sqrt(d_model)
    said = f"Features that are drawn with a deviation of {drawn:.2g} come out with {here:.2g} for {d_model = }"
    beside = "positions of 0.71, as sines have, or 1, as nn.Embedding, drown them"
    return f"{said} ({drawn / 512**0.5:.2g} for 512): {beside}."


WORDS = ("weight", "embed.weight", "src_embed.weight")
"""The names of tables of words, one of which an embedding or a model has."""
SPECIAL = {"LN1": _unbiased, "LN2": _eps_outside, "A1": _scaled, "E2": _drowned}
