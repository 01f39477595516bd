"""Whether what agrees on short sequences agrees on longer ones: a window, a table that starts again."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from scratch_transformer.kit.judge.session import Session, distance
from scratch_transformer.kit.judge.variants import call
from scratch_transformer.kit.kind import Probe
from scratch_transformer.kit.recipe import Recipe

LONG = 64
"""Tokens, where nothing limits them."""
OTHER = 1e-3
"""Relative errors that no rounding of larger positions makes."""


def other_when_long(session: Session, recipe: Recipe) -> str:
    """What is said where it gives other numbers than a recipe that explains it; "" if it does not, or takes none."""
    length = min(int(session.settings.get("max_len", LONG)), LONG)
    inputs: dict[str, Any] = {}
    for name, value in session.ran[0].probe.inputs.items():
        if "mask" in name:
            inputs[name] = None
        elif name in ("x", "ids") and isinstance(value, Tensor):
            if name == "ids":  # padding, which a model may see for itself, is none here
                value = value.where(value != session.settings.get("pad", 0), value.max())
            inputs[name] = value.repeat(1, length // value.shape[1] + 1, *[1] * (value.dim() - 2))[:, :length]
        else:
            return ""  # of two lengths, or a part in a place of its own
    probe = Probe("long", inputs, shows=f"{length} tokens")
    if not session.candidate.accepts(inputs):
        return ""
    session.candidate.load(session.asked)
    try:
        with torch.no_grad():
            output = call(session.candidate, inputs)
    except Exception:  # a length that it does not take
        return ""
    expected = session.variants.output(recipe, False, session.state, probe)
    if expected is None or output.shape != expected.shape or distance(output, expected, probe) <= OTHER:
        return ""
    said = f"With {length} tokens it gives other numbers, though with few it does not"
    return f"{said}: a window, or positions that start again."
