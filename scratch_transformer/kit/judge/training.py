"""A candidate in training mode, in which its dropouts drop, and what they are told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

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


def told(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
    """The arguments of a call of torch.nn.functional.dropout, by name."""
    return {**dict(zip(("input", "p", "training", "inplace"), args, strict=False)), **(kwargs or {})}
