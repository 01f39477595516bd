"""What a language model is trained with: windows of a text, and the tokens that come next."""

from __future__ import annotations

import torch

from scratch_transformer.kit.canonical.windows import LAST, Windows
from scratch_transformer.kit.kind import Kind, Probe, Settings


def probes(settings: Settings, seed: int) -> tuple[Probe, ...]:
    """The last of all windows is drawn alone: what begins one later stops with all others of its batch."""
    some = torch.tensor([0, 7, 11])
    windows = Probe("windows", {"draws": some}, shows="windows from anywhere in a text")
    last = Probe("the last", {"draws": torch.full_like(some, LAST)}, shows="the last window of a text")
    return (windows, last) if settings["is_whole"] else (windows,)


BATCHES = Kind(
    name="TextBatches",
    what="Windows of a text, drawn at random, and for each token of them the one that comes next.",
    synonyms=("getbatch",),
    source="Radford et al. 2018, section 3.1, equation 1",
    inputs=("draws",),
    defaults={"tokens": 3 * torch.arange(23) + 2, "length": 5, "batch": 3, "is_whole": True},
    build=lambda settings, recipe: Windows(dict(settings), recipe),
    probes=probes,
    mistakes=("T13", "T26"),
)
