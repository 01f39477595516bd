"""Windows of a text and the tokens that come next, by recipe."""

from __future__ import annotations

import torch
from torch import Tensor

from scratch_transformer.kit.canonical.base import OfSettings

LAST = -1
"""In the place of a draw: the last of all windows."""
SHORT = -1
"""In the place of every token of a window that is not whole."""


class Windows(OfSettings):
    """Where windows begin -> (2, B, T): the tokens of each, and what is to be said at every place of it."""

    def forward(self, draws: Tensor) -> Tensor:
        tokens, length = self.settings["tokens"], self.settings["length"]
        ahead = {"the same": 0, "two later": 2}.get(self.recipe.targets, 1)
        last = len(tokens) - length - max(ahead, 1)
        at_last = last + {"without the last": -1, "beyond the end": 1}.get(self.recipe.windows, 0)
        starts = [at_last if start == LAST else start for start in draws.tolist()]
        found = torch.full((2, len(starts), length), SHORT)
        for row, start in enumerate(starts):
            if start <= last:
                found[0, row] = tokens[start : start + length]
                found[1, row] = tokens[start + ahead : start + ahead + length]
        return found
