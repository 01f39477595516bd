"""A whole training run, ours beside torch's: from the same seed, with dropout, the same loss at every step.

parity = train()
print(max(parity.differences), parity.ours.accuracy, parity.builtin.accuracy)
"""

from scratch_transformer.conformance.training.library import BUILTIN, FULL, OURS, Library, Settings
from scratch_transformer.conformance.training.parity import LEARNED, LIMIT, Parity, Side, train

__all__ = ["BUILTIN", "FULL", "LEARNED", "LIMIT", "OURS", "Library", "Parity", "Settings", "Side", "train"]
