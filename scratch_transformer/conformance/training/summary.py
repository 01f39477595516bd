"""A training run in one sentence, in a few rows, and as a dictionary for JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from scratch_transformer.conformance.training.parity import KEY_BIAS_LIMIT, LEARNED, LIMIT, Parity

DEFINITION = (
    "Two models trained side by side, ours with our loss, Adam and warm-up, the other with torch's, from the same seed "
    "and on the same batches, in float64 on the CPU, with dropout. They learn to write strings of digits backwards. "
    f"Losses differ by |ours - torch's| / |torch's| ≤ {LIMIT:.0e} at every step. Parameters are equal to the last bit "
    f"before the first step, and after the last differ by ‖ours - torch's‖∞ / ‖torch's‖∞ ≤ {LIMIT:.0e}, but for the "
    "biases of the keys: their gradients are zero but for rounding, of which Adam makes a movement of at most "
    f"{KEY_BIAS_LIMIT:.0e}. Learned is the task if {LEARNED:.0%} of the strings that were held out, decoded greedily, "
    "are right to the last digit."
)


def sentence(parity: Parity) -> str:
    """What was found, or all that is wrong."""
    settings, largest = parity.settings, max(parity.differences)
    wrong = list(_faults(parity))
    if wrong:
        return f"{settings.steps} steps of training: {'; '.join(wrong)}."
    return (
        f"{settings.steps} steps of training with dropout {settings.dropout:g}: the losses differ by at most "
        f"{largest:.0e}, the parameters at the end by {parity.parameter_error:.0e}; {_accuracies(parity)}."
    )


def _faults(parity: Parity) -> Iterator[str]:
    if not parity.same_start:
        yield "the initial parameters differ"
    first = next((i for i, d in enumerate(parity.differences, start=1) if not d <= LIMIT), None)
    if first is not None:
        yield f"the losses differ by more than {LIMIT:.0e} from step {first} on, by up to {max(parity.differences):.0e}"
    if not parity.parameter_error <= LIMIT:
        yield f"the parameters at the end differ by {parity.parameter_error:.0e}"
    if not max(parity.ours.key_bias, parity.builtin.key_bias) <= KEY_BIAS_LIMIT:
        yield f"a bias of a key has moved by {max(parity.ours.key_bias, parity.builtin.key_bias):.0e}"
    if min(parity.ours.accuracy, parity.builtin.accuracy) < LEARNED:
        yield f"{_accuracies(parity)}, and {LEARNED:.0%} were expected"


def _accuracies(parity: Parity) -> str:
    ours, builtin = (f"{side.accuracy:.1%}" for side in (parity.ours, parity.builtin))
    return f"{ours} (ours) and {builtin} (torch's) of {parity.settings.held_out} held-out strings are right"


def rows(parity: Parity) -> list[tuple[int, float, float, float]]:
    """Of the first step and some round ones: the step, our loss, the builtin's, and the largest difference so far."""
    series = list(zip(parity.ours.losses, parity.builtin.losses, parity.growth, strict=True))
    return [(step, *series[step - 1]) for step in round_steps(len(series))]


def round_steps(count: int) -> list[int]:
    """The first step, and multiples of 1, 2 or 5 times a power of ten, ten at most."""
    sizes = (m * 10**p for p in range(12) for m in (1, 2, 5))
    size = next(size for size in sizes if count / size <= 10)
    return sorted({1, *range(size, count + 1, size)})


def document(parity: Parity) -> dict[str, Any]:
    """Every number."""
    return {
        "passed": parity.passed,
        "sentence": sentence(parity),
        "limits": {"losses": LIMIT, "parameters": LIMIT, "key bias": KEY_BIAS_LIMIT, "accuracy": LEARNED},
        **dataclasses.asdict(parity),
        "largest_difference": max(parity.differences),
        "differences": parity.differences,
        "rows": rows(parity),
    }
