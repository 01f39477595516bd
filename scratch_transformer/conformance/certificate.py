"""The certificate of a verification: what was compared, where, how, and every number, as JSON."""

from __future__ import annotations

import dataclasses
import datetime
import inspect
import json
import math
from collections.abc import Sequence
from typing import Any

from scratch_transformer.conformance.compare import DEFINITION, GRADIENT_LIMIT, OUTPUT_LIMIT
from scratch_transformer.conformance.environment import environment
from scratch_transformer.conformance.invariants import tolerance
from scratch_transformer.conformance.legend import LEGEND
from scratch_transformer.conformance.oracle import ORACLE
from scratch_transformer.conformance.summary import by_component, has_passed, reproduction, skipped, summarise, verdict
from scratch_transformer.conformance.table import COMPONENTS
from scratch_transformer.conformance.training.parity import Parity
from scratch_transformer.conformance.training.summary import DEFINITION as TRAINING
from scratch_transformer.conformance.training.summary import document
from scratch_transformer.conformance.verify import Check

SCHEMA_VERSION = 1


def certificate(checks: Sequence[Check], device: str = "cpu", training: Parity | None = None) -> dict[str, Any]:
    """Everything about a verification, ready for JSON. Infinities and NaNs are the strings "inf" and "nan"."""
    where = environment(device)
    grouped = by_component(checks)
    components = [_component(name, group) for name, group in grouped.items()]
    return _plain(
        {
            "schema": "scratch_transformer certificate",
            "schema_version": SCHEMA_VERSION,
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "verdict": {"passed": has_passed(checks, training), "sentence": verdict(checks, where, training)},
            "environment": where,
            "dtypes": list(dict.fromkeys(c.task.dtype for c in checks if c.task.kind in ("definition", "precision"))),
            "tolerances": {
                "float64": DEFINITION,
                "oracle": ORACLE,
                "low precision, outputs": OUTPUT_LIMIT,
                "low precision, gradients": GRADIENT_LIMIT,
                "invariants": tolerance(),
            },
            "definitions": LEGEND | ({"training": TRAINING} if training else {}),
            "summary": dataclasses.asdict(summarise("all", checks)),
            "skipped": skipped(checks),
            "components": components,
            **({"training": document(training)} if training else {}),
        }
    )


def _component(name: str, checks: Sequence[Check]) -> dict[str, Any]:
    component = COMPONENTS[name]
    summary = summarise(name, checks)
    cases: dict[int, dict[str, Any]] = {}
    for check in checks:
        if check.task.kind in ("definition", "oracle", "precision"):
            training = component.cases[check.task.index].training
            case = cases.setdefault(check.task.index, {"description": check.description, "training": training})
            case[check.task.dtype if check.task.kind == "precision" else check.task.kind] = _numbers(check)
    return {
        "name": name,
        "ours": f"{component.ours.__module__}.{component.ours.__qualname__}",
        "builtin": f"{component.builtin.__module__}.{component.builtin.__name__}",
        "source": component.source,
        "documentation": inspect.getdoc(component.ours),
        "passed": summary.passed,
        "summary": dataclasses.asdict(summary),
        "cases": list(cases.values()),
        "errors": [{"description": c.description, **_numbers(c)} for c in checks if c.task.kind == "error"],
        "invariants": [{"description": c.description, **_numbers(c)} for c in checks if c.task.kind == "invariant"],
    }


def _numbers(check: Check) -> dict[str, Any]:
    """Status and measured numbers; for a failure how to repeat it."""
    found: dict[str, Any] = {"status": check.status}
    if check.note:
        found["note"] = check.note
    if check.status == "failed":
        found["reproduction"] = reproduction(check)
    if check.violation is not None:
        found["violation"] = check.violation
    measured = check.equality or check.precision
    if measured is not None:
        found |= dataclasses.asdict(measured)
        found.pop("limit", None)
    if check.precision is not None:
        found |= {"output_ratio": check.precision.output_ratio, "gradient_ratio": check.precision.gradient_ratio}
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def to_json(certificate: dict[str, Any]) -> str:
    """The certificate as text."""
    return json.dumps(certificate, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
