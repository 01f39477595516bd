"""Whether what agrees on short sequences agrees on longer ones: a window, a table that starts again."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor

from scratch_transformer.kit.judge.session import ROUNDED, Session, distance
from scratch_transformer.kit.judge.variants import call
from scratch_transformer.kit.kind import Probe
from scratch_transformer.kit.recipe import Recipe

LONG = 64
"""Tokens, where nothing limits them."""
OTHER = 1e-3
"""Relative errors that no rounding of larger positions makes."""

SPEAKS = re.compile(r"window|local|sliding|lookback", re.IGNORECASE)
WINDOW = "A window: every token sees itself and the {} before it. Within that it is as all that hides the future."


def other_when_long(session: Session, recipe: Recipe) -> str:
    """What is said where it gives other numbers than a recipe that explains it; "" if it does not, or takes none."""
    compared = _at_length(session, recipe)
    if compared is None:
        return ""
    probe, output, expected = compared
    if distance(output, expected, probe) <= OTHER:
        return ""
    if (span := window_of(session, recipe)) is not None:
        session.candidate.notes.append(WINDOW.format(span - 1))
        return ""
    said = f"With {expected.shape[1]} tokens it gives other numbers, though with few it does not"
    return f"{said}: a window, or positions that start again."


def window_of(session: Session, recipe: Recipe) -> int | None:
    """How many tokens each sees, itself included, of what speaks of a window; None where that is all, or not known."""
    compared = _at_length(session, recipe) if SPEAKS.search(session.candidate.text) else None
    if compared is None:
        return None
    probe, output, expected = compared
    differ = ((output - expected).abs() > OTHER * expected.abs().max()).flatten(2).any(-1).any(0).nonzero()
    span = int(differ[0]) if len(differ) else 0  # the first that does not see all before it
    within = session.variants.output(recipe.with_({"span": span}), False, session.state, probe) if span > 1 else None
    return span if within is not None and distance(output, within, probe) <= ROUNDED else None


def long(session: Session, first: int = 0) -> Probe | None:
    """The ids or tokens of a probe again and again; None of what is given others, too. first: its first position."""
    length = min(int(session.settings.get("max_len", LONG)) - first, LONG)
    inputs: dict[str, Any] = {}
    for name, value in session.ran[0].probe.inputs.items():
        if "mask" in name:
            inputs[name] = None
        elif name in ("x", "ids") and isinstance(value, Tensor):
            if name == "ids":  # padding, which a model may see for itself, is none here
                value = value.where(value != session.settings.get("pad", 0), value.max())
            inputs[name] = value.repeat(1, length // value.shape[1] + 1, *[1] * (value.dim() - 2))[:, :length]
        else:
            return None  # of two lengths, or a part in a place of its own
    return Probe("long", inputs, shows=f"{length} tokens") if session.candidate.accepts(inputs) else None


def _at_length(session: Session, recipe: Recipe) -> tuple[Probe, Tensor, Tensor] | None:
    """The probe, what it gives, and what the recipe does; None where one of them gives nothing, or another shape."""
    probe = long(session, recipe.first_position if recipe.positions == "learned" else 0)
    if probe is None:
        return None
    session.candidate.load(session.asked)
    try:
        with torch.no_grad():
            output = call(session.candidate, probe.inputs)
    except Exception:  # a length that it does not take
        return None
    expected = session.variants.output(recipe, False, session.state, probe)
    return None if expected is None or output.shape != expected.shape else (probe, output, expected)
