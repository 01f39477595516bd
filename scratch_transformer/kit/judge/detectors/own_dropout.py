"""What a dropout of one's own drops in training, and what it makes of the rest."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import Session
from scratch_transformer.kit.judge.training import in_training
from scratch_transformer.kit.judge.variants import call
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES

P, NUMBERS = 0.2, (40, 50, 60)
FAR = 0.02
"""How far the share of zeros may be from p: ten times what chance does among so many."""
FIX = "x * (torch.rand_like(x) >= p) / (1 - p): what is left is made larger, so that the mean stays what it is."


def of_ones(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B11: told p, it drops another share, or leaves what is not dropped as it is."""
    if session.kind.name != "Dropout":
        return
    candidate = session.candidate.rebuild(dropout=P)
    with in_training(candidate):
        output = call(candidate, {"x": torch.ones(NUMBERS, dtype=torch.float64)})
    is_zero, kept = output == 0, output[output != 0]
    if any(bool((is_zero == is_zero.narrow(axis, 0, 1)).all()) for axis in range(is_zero.dim())):
        return  # whole sentences, or features, are dropped: it is of another sort
    zeros = float(is_zero.double().mean())
    if abs(zeros - P) > FAR:
        yield Finding(MISTAKES["B11"], f"Told p = {P}, in training it sets {zeros:.0%} of its numbers to 0.", fix=FIX)
    elif len(kept) and not torch.allclose(kept, torch.tensor(1 / (1 - P), dtype=kept.dtype), rtol=1e-5):
        said = f"Told p = {P}, in training it multiplies what it keeps by {float(kept.mean()):.3g}, not by 1 / (1 - p)"
        yield Finding(
            MISTAKES["B11"], f"{said} = {1 / (1 - P):.3g}: their mean differs from that after eval().", fix=FIX
        )


OWN_DROPOUT = ((("B11",), of_ones),)
