"""Many checks in a few numbers: a summary per component, and the verdict."""

from __future__ import annotations

import collections
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scratch_transformer.conformance.compare import Equality, Precision
from scratch_transformer.conformance.training.parity import Parity
from scratch_transformer.conformance.verify import Check, Kind


@dataclass(frozen=True)
class Summary:
    """The checks of one component, or of all. `LEGEND` says what the numbers mean; None: nothing was compared."""

    name: str
    cases: int
    bitwise: int
    definitions: int
    output_error: float | None
    gradient_error: float | None
    oracle_cases: int
    oracle_output_error: float | None
    oracle_gradient_error: float | None
    output_ratio: float | None
    gradient_ratio: float | None
    mean_ratio: float | None
    errors: int
    invariants: int
    failed: int

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return self.failed == 0


def summarise(name: str, checks: Sequence[Check]) -> Summary:
    """The summary of these checks under a name."""
    definitions, oracle = _equalities(checks, "definition"), _equalities(checks, "oracle")
    precisions = [check.precision for check in checks if check.precision is not None]
    done = [check.task for check in checks if check.status != "skipped"]
    case_kinds = ("definition", "oracle", "precision")
    return Summary(
        name=name,
        cases=len({(c.task.component, c.task.index) for c in checks if c.task.kind in case_kinds}),
        bitwise=sum(equality.is_bitwise for equality in definitions),
        definitions=len(definitions),
        output_error=_worst(equality.output_error for equality in definitions),
        gradient_error=_worst(equality.gradient_error for equality in definitions),
        oracle_cases=len(oracle),
        oracle_output_error=_worst(equality.output_error for equality in oracle),
        oracle_gradient_error=_worst(equality.gradient_error for equality in oracle),
        output_ratio=_worst(precision.output_ratio for precision in precisions),
        gradient_ratio=_worst(precision.gradient_ratio for precision in precisions),
        mean_ratio=geometric_mean(precisions),
        errors=sum(task.kind == "error" for task in done),
        invariants=sum(task.kind == "invariant" for task in done),
        failed=sum(check.status == "failed" for check in checks),
    )


def geometric_mean(precisions: Iterable[Precision]) -> float | None:
    """Of all ratios of all tensors."""
    logs = [math.log(ratio) for p in precisions for ratio in (*p.output_ratios, *p.gradient_ratios)]
    return math.exp(math.fsum(logs) / len(logs)) if logs else None


def by_component(checks: Iterable[Check]) -> dict[str, list[Check]]:
    """The checks of every component, in the order of their first."""
    grouped: dict[str, list[Check]] = {}
    for check in checks:
        grouped.setdefault(check.task.component, []).append(check)
    return grouped


def skipped(checks: Iterable[Check]) -> dict[str, int]:
    """How often each reason was given for not comparing, the most frequent first."""
    reasons = collections.Counter(check.note for check in checks if check.status == "skipped")
    return dict(reasons.most_common())


def has_passed(checks: Sequence[Check], training: Parity | None = None) -> bool:
    """Whether something was compared, and nothing failed."""
    compared = any(check.status == "passed" and check.task.kind in ("definition", "precision") for check in checks)
    learned = training is None or training.passed
    return compared and learned and all(check.status != "failed" for check in checks)


def verdict(checks: Sequence[Check], environment: dict[str, str], training: Parity | None = None) -> str:
    """One sentence."""
    counts = collections.Counter(check.status for check in checks)
    grouped = by_component(checks)
    ours = f"scratch_transformer {environment['scratch_transformer']}"
    theirs = f"torch {environment['torch']} on {environment['device']}"
    if counts["failed"]:
        where = ", ".join(name for name, group in grouped.items() if any(check.status == "failed" for check in group))
        return f"FAIL: {ours} differs from {theirs}: {counts['failed']} of {len(checks)} checks failed, in {where}."
    if not has_passed(checks):
        return f"FAIL: nothing of {ours} could be compared with {theirs}."
    if training is not None and not training.passed:
        return f"FAIL: {ours} agrees with {theirs} in every single check, but not in a whole training run."
    compared = (check.task for check in checks if check.status == "passed")
    dtypes = ", ".join(dict.fromkeys(task.dtype for task in compared if task.kind in ("definition", "precision")))
    components = "1 component" if len(grouped) == 1 else f"{len(grouped)} components"
    counted = f"{components}, {counts['passed']} checks passed, {counts['skipped']} skipped"
    trained = f", and {training.settings.steps} steps of training" if training else ""
    return f"PASS: {ours} agrees with {theirs} in {dtypes}: {counted}{trained}."


def reproduction(check: Check) -> str:
    """A command that repeats one check."""
    code = f"from scratch_transformer.conformance.verify import Task, check; print(check({check.task!r}))"
    return f'python -c "{code}"'


def _equalities(checks: Iterable[Check], kind: Kind) -> list[Equality]:
    return [check.equality for check in checks if check.task.kind == kind and check.equality is not None]


def _worst(errors: Iterable[float]) -> float | None:
    return max(errors, default=None)
