"""P8 of rotary positions: in bfloat16, angles that are rounded before their sines and cosines are taken."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor

from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import Session, in_precision
from scratch_transformer.kit.judge.variants import call
from scratch_transformer.kit.kind import Candidate, Finding, Probe
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.embedding import ROUNDED_ANGLES

ROWS, FIRST = 300, 8
"""Positions, and those of them at which rounding changes no angle by much."""
MUCH, LITTLE = 0.1, 0.05
"""Of the largest number: differences that rounded sines and cosines do not make, and do."""


def rounded_angles(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """P8, of what turns the first positions as it should, and later ones by other angles."""
    if best is None or best.changes:
        return
    d_k = session.settings["d_k"]
    x = torch.randn(1, session.settings["num_heads"], ROWS, d_k, generator=torch.Generator().manual_seed(0)).bfloat16()
    inputs = {"x": x, "positions": torch.arange(ROWS)}
    expected = session.variant(best.recipe, Probe("long", {**inputs, "x": x.double()}, shows=f"{ROWS} positions"))
    if expected is None:
        return
    able = (one for one in _with_rows(session.candidate, d_k) if _turns_all(one, {**inputs, "x": x.double()}, expected))
    outputs = (_in_bfloat16(session, candidate, inputs) for candidate in able)
    output = next((output for output in outputs if output is not None), None)
    if output is None or output.shape != expected.shape:
        return
    off = ((output.double() - expected).abs() / expected.abs().max()).amax((0, 1, 3))
    if bool(off[:FIRST].max() <= LITTLE) and bool(off.max() > MUCH):
        said = f"In bfloat16 it turns position {int(off.argmax())} by another angle: its output is off by "
        yield Finding(MISTAKES["P8"], f"{said}{100 * float(off.max()):.2g} % of the largest number.", ROUNDED_ANGLES)


def _turns_all(candidate: Candidate, inputs: dict[str, Tensor], expected: Tensor) -> bool:
    """Whether it turns every one of them as it should where nothing is rounded, however long its table is."""
    with contextlib.suppress(Exception):  # the learner's code may raise anything
        output = call(candidate, inputs)
        return output.shape == expected.shape and bool((output - expected).abs().max() <= LITTLE * expected.abs().max())
    return False


def _in_bfloat16(session: Session, candidate: Candidate, inputs: dict[str, Tensor]) -> Tensor | None:
    """What it makes of such inputs with the tables that it has, or, where it refuses two types, with such tables."""
    with contextlib.suppress(Exception):  # the learner's code may raise anything
        return call(candidate, inputs)
    if candidate.module is not None:
        with contextlib.suppress(Exception), in_precision(session, candidate.module, torch.bfloat16):
            return call(candidate, inputs)
    return None


def _with_rows(candidate: Candidate, d_k: int) -> Iterator[Candidate]:
    """The same with a table that is long enough, if it has any: its width may go by the name of the model's."""
    for width in ({}, {"d_model": d_k}, {"d_k": d_k}):
        with contextlib.suppress(Exception):  # it has no such setting, or counts otherwise
            yield candidate.rebuild(max_len=ROWS, **width)
    yield candidate


ROUNDED = ((("P8",), rounded_angles),)
