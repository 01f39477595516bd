"""Results of a verification, made up."""

from scratch_transformer.conformance import COMPONENTS
from scratch_transformer.conformance.compare import Equality, Precision
from scratch_transformer.conformance.verify import Check, Task

INF = float("inf")


def definition(output=1e-16, gradient=2e-16, index=0, component="Linear", kind="definition"):
    """A comparison in float64."""
    equality = Equality(
        output, gradient, is_bitwise=output == gradient == 0, limit=1e-12 if kind == "definition" else 1e-10
    )
    return _check(Task(component, kind, index), equality.passed, str(equality), equality=equality)


def precision(outputs=(1.0,), gradients=(1.0,), index=0, component="Linear", dtype="float16"):
    """A comparison in low precision."""
    found = Precision(tuple(outputs), tuple(gradients), 3)
    return _check(Task(component, "precision", index, dtype), found.passed, str(found), precision=found)


def other(kind="error", index=0, component="Linear", passed=True, note="it is so"):
    """An error case or an invariant."""
    violation = (0.0 if passed else INF) if kind == "invariant" else None
    return _check(Task(component, kind, index), passed, note, violation=violation)


def skipped(kind="oracle", index=0, component="Linear", reason="too hard"):
    """What was not compared."""
    return Check(Task(component, kind, index), _description(component, kind, index), "skipped", reason)


def _check(task, passed, note, **measured):
    status, note = ("passed", "") if passed else ("failed", note)
    return Check(task, _description(task.component, task.kind, task.index), status, note, **measured)


def _description(component, kind, index):
    component = COMPONENTS[component]
    if kind == "invariant":
        return component.invariants[index].name
    return (component.errors if kind == "error" else component.cases)[index].description
