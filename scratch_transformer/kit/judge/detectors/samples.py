"""What another number of samples shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import Session
from scratch_transformer.kit.judge.stops.crashes import crash_finding
from scratch_transformer.kit.judge.variants import call
from scratch_transformer.kit.kind import Finding

Detector = Callable[[Session, Hypothesis | None], Iterator[Finding]]


def of_three_samples(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B26: what is taken apart into two, sample by sample, stops with three."""
    if best is not None or session.is_random:
        return
    inputs = session.ran[0].probe.inputs
    samples = max((len(value) for value in inputs.values() if isinstance(value, Tensor) and value.dim()), default=0)
    try:
        call(session.candidate, {name: _with_another(value, samples) for name, value in inputs.items()})
    except ValueError as error:
        found = crash_finding(error)
        yield from [Finding(found.mistake, found.evidence, found.form, explains=True)] if found is not None else []


def _with_another(value: Any, samples: int) -> Any:
    is_of_samples = isinstance(value, Tensor) and value.dim() > 0 and len(value) == samples
    return torch.cat((value, value[-1:])) if is_of_samples else value


SAMPLES: tuple[tuple[tuple[str, ...], Detector], ...] = ((("B26",), of_three_samples),)
