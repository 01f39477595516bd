"""What repeated calls, training mode and other precisions show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from scratch_transformer.conformance.kit.crashes import explain_crash
from scratch_transformer.conformance.kit.kind import Candidate, Finding, Probe
from scratch_transformer.conformance.kit.mistakes import MISTAKES
from scratch_transformer.conformance.kit.search import Hypothesis
from scratch_transformer.conformance.kit.session import Session, call, distance

Detector = Callable[[Session, Hypothesis | None], Iterator[Finding]]


def input_changed(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """A12."""
    for result in session.ran:
        inputs = {k: v.clone() if isinstance(v, Tensor) else v for k, v in result.probe.inputs.items()}
        with torch.no_grad():
            session.candidate(**inputs)
        for name, value in inputs.items():
            if isinstance(value, Tensor) and not torch.equal(value, result.probe.inputs[name]):
                yield Finding(MISTAKES["A12"], f"After a call, {name} has other values than before.")
                return


def random_in_evaluation(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B12: dropout, or anything random, after eval()."""
    candidate, probe = _with_dropout(session) or session.candidate, session.ran[0].probe
    if candidate.module is not None:
        candidate.module.eval()
    first, second = (call(candidate, probe.inputs) for _ in range(2))
    if distance(first, second, probe) > 0:
        yield Finding(MISTAKES["B12"], "After model.eval(), two calls with the same input give different outputs.")


def _with_dropout(session: Session, p: float = 0.5) -> Candidate | None:
    """The candidate built again with dropout, if its class can have it."""
    try:
        candidate = session.candidate.rebuild(dropout=p)
        candidate.load(session.asked)
    except Exception:  # it has no such setting, or cannot be built twice
        return None
    return candidate


def other_in_training(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """B11: without dropout, training mode computes something else, namely with a causal mask."""
    module = session.candidate.module
    if module is None or session.settings.get("dropout"):
        return
    probe = session.ran[0].probe
    evaluated = call(session.candidate, probe.inputs)
    module.train()
    try:
        trained, again = (call(session.candidate, probe.inputs) for _ in range(2))
    finally:
        module.eval()
    is_random = distance(trained, again, probe) > 0
    if not is_random and distance(evaluated, trained, probe) > 1e-6:
        yield Finding(MISTAKES["B11"], "The same input gives other outputs in training than in evaluation mode.")


def attention_dropout(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """A18, and A17: what is kept after a call in training mode."""
    candidate = _with_dropout(session)
    if candidate is None or candidate.module is None:
        return
    candidate.module.train()
    probe = session.ran[0].probe
    first, second = (call(candidate, probe.inputs) for _ in range(2))
    if distance(first, second, probe) == 0:
        yield Finding(MISTAKES["A18"], "Built with dropout = 0.5, two calls in training mode give the same output.")
        return
    for name, value in vars(candidate.module).items():
        if _is_weights(value, probe) and ((value.sum(-1) - 1).abs() > 1e-3).any():
            sums = value.sum(-1).flatten()[:3].tolist()
            said = f"Rows of self.{name} sum to {', '.join(f'{s:.2f}' for s in sums)} in training mode."
            yield Finding(MISTAKES["A17"], said)
            return


def _is_weights(value: Any, probe: Probe) -> bool:
    query = probe.inputs.get("query", probe.inputs.get("x"))
    return (
        isinstance(value, Tensor)
        and value.dim() in (3, 4)
        and value.is_floating_point()
        and isinstance(query, Tensor)
        and value.shape[-2] == query.shape[-2]
        and bool((value >= 0).all())
    )


def half_precision(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """A8: a masked call in float16."""
    module = session.candidate.module
    masked = [r.probe for r in session.ran if any("mask" in n and v is not None for n, v in r.probe.inputs.items())]
    probe = masked[0] if masked else session.ran[0].probe
    inputs = {n: v.half() if isinstance(v, Tensor) and v.is_floating_point() else v for n, v in probe.inputs.items()}
    try:
        if module is not None:
            module.half()
        call(session.candidate, inputs)
    except Exception as error:  # the learner's code may raise anything
        if explain_crash(error) == "A8":
            line = str(error).splitlines()[0]
            yield Finding(MISTAKES["A8"], f"In float16 it stops with: {line}. In float32 it agrees.")
    finally:
        if module is not None:
            module.double()
            session.candidate.load(session.asked)


BEHAVIOUR: tuple[tuple[tuple[str, ...], Detector], ...] = (
    (("A12",), input_changed),
    (("B12",), random_in_evaluation),
    (("B11",), other_in_training),
    (("A18", "A17"), attention_dropout),
    (("A8",), half_precision),
)
