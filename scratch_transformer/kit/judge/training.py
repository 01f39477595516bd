"""A candidate in training mode, in which its dropouts drop, and what they are told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from scratch_transformer.kit.judge.session import Session
from scratch_transformer.kit.kind import Candidate, State


def with_dropout(session: Session, state: State | None = None, beside_lent: bool = False) -> Candidate | None:
    """The candidate built again with dropout, if its class can have it. beside_lent: with what stands in for parts."""
    try:
        candidate = (
            session.candidate.rebuild_beside_lent(0.5) if beside_lent else session.candidate.rebuild(dropout=0.5)
        )
        candidate.load(session.asked if state is None else state)
    except Exception:  # it has no such setting, or cannot be built twice
        return None
    return candidate


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
