"""One case, all its rivals: each result is checked, then they take turns against the clock, then memory is measured."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from scratch_transformer.benchmarking import memory
from scratch_transformer.benchmarking.case import Case, Rival, Unsupported, Wrong
from scratch_transformer.benchmarking.timing import Effort, Prepared, batch_of, interleave, timer_of

Status = Literal["timed", "unsupported", "left out", "wrong", "failed"]


@dataclass(frozen=True)
class Result:
    """What came of one rival in one case.

    reason: why it was not timed. durations: seconds per call, round by round.
    error: against float64. peak_memory: bytes above the inputs and outputs, or None where it was not measured.
    """

    case: Case
    rival: Rival
    status: Status
    reason: str = ""
    error: float | None = None
    durations: list[float] = field(default_factory=list)
    peak_memory: int | None = None


@dataclass(frozen=True)
class Lineup:
    """The rivals of a case that can do it, ready; and the results of those that cannot."""

    ready: dict[str, Prepared]
    errors: dict[str, float | None]
    out: dict[str, Result]


def line_up(case: Case, device: str, left_out: Mapping[str, str] | None = None) -> Lineup:
    """Prepare every rival and check its result. left_out: names that are not even tried, each with the reason."""
    rivals = case.rivals(device)
    if any(rival.compiles and rival.name not in (left_out or {}) for rival in rivals):
        torch.compiler.reset()  # beyond some number of shapes torch.compile falls back, silently, to plain calls
    inputs = case.draw(device)
    right = case.golden(inputs)
    found = Lineup({}, {}, {})
    for rival in rivals:
        if left_out and rival.name in left_out:
            found.out[rival.name] = Result(case, rival, "left out", left_out[rival.name])
            continue
        try:
            found.ready[rival.name], found.errors[rival.name] = _checked(case, rival, inputs, right)
        except Unsupported as error:
            found.out[rival.name] = Result(case, rival, "unsupported", str(error))
        except Wrong as error:
            found.out[rival.name] = Result(case, rival, "wrong", str(error))
        except torch.OutOfMemoryError as error:
            found.out[rival.name] = Result(case, rival, "left out", _first_lines([str(error)]))
        except Exception as error:  # ours broke down: that must be seen, and must not end the others' race
            found.out[rival.name] = Result(case, rival, "failed", _first_lines([f"{type(error).__name__}: {error}"]))
        if rival.name in found.out:
            memory.give_back(device)
    _refuse_the_inaccurate(rivals, case, found)
    return found


def _refuse_the_inaccurate(rivals: list[Rival], case: Case, found: Lineup) -> None:
    """Ours must be about as exact as PyTorch's own, who know what rounding does in this case."""
    known = {rival: found.errors[rival.name] for rival in rivals if rival.name in found.ready}
    theirs = max((error for rival, error in known.items() if error is not None and not rival.is_ours), default=math.inf)
    for rival, error in known.items():
        if rival.is_ours and error is not None and error > (limit := case.limit_beside(theirs)):
            del found.ready[rival.name]
            beside = f"PyTorch's is {theirs:.1e}, and ours may be {limit:.1e}"
            reason = f"relative error {error:.1e} against float64; {beside}"
            found.out[rival.name] = Result(case, rival, "wrong", reason)


def _checked(case: Case, rival: Rival, inputs: Any, right: Any) -> tuple[Prepared, float | None]:
    prepared = case.prepare(rival, inputs)
    return prepared, case.check(_first_call(rival, prepared), right)


def _first_call(rival: Rival, prepared: Prepared) -> tuple[Tensor, ...]:
    """What the rival finds.

    Raises:
        Unsupported: PyTorch refuses this case. It gives its reasons as warnings, before the error.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            return prepared.outcome()
        except Exception as error:  # each backend, and the compiler, has exceptions of its own
            if rival.is_ours or isinstance(error, torch.OutOfMemoryError):
                raise
            reasons = [str(warning.message) for warning in caught if issubclass(warning.category, UserWarning)]
            raise Unsupported(_first_lines([*reasons, str(error)])) from error


def _first_lines(reasons: list[str]) -> str:
    """Without where in PyTorch's sources they were said."""
    lines = [reason.strip().splitlines()[0].split(" (Triggered internally")[0] for reason in reasons if reason.strip()]
    return " ".join(dict.fromkeys(lines))


def race(case: Case, device: str, effort: Effort, left_out: Mapping[str, str] | None = None) -> list[Result]:
    """A result for every rival of the case, in their order."""
    lineup = line_up(case, device, left_out)
    durations = interleave(lineup.ready, timer_of(device), effort, batch_of(device))
    lineup.ready.clear()  # inputs, results and graphs make room for those that are weighed
    memory.give_back(device)
    results = []
    for rival in case.rivals(device):
        if rival.name in lineup.out:
            results.append(lineup.out[rival.name])
            continue
        found = lineup.errors[rival.name], durations[rival.name], _peak(case, rival, device)
        results.append(Result(case, rival, "timed", "", *found))
    return results


def _peak(case: Case, rival: Rival, device: str) -> int | None:
    try:
        return memory.peak(case, rival, device)
    except memory.NotMeasured:
        return None
