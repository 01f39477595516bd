"""A candidate in training mode, in which its dropouts drop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from scratch_transformer.kit.kind import Candidate


@contextmanager
def in_training(candidate: Candidate) -> Iterator[None]:
    """As long as it lasts; then it is in evaluation mode, as everywhere else."""
    if candidate.module is not None:
        candidate.module.train()
    candidate.drops = True
    try:
        yield
    finally:
        candidate.drops = False
        if candidate.module is not None:
            candidate.module.eval()
