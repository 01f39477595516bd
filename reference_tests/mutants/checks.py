"""Everything that is checked about a component, by name: what the real code passes and a mutant must fail."""

import functools
import warnings
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from scratch_transformer.conformance import Component, Draw, compare_definition, compare_precision
from scratch_transformer.conformance.errors import faults
from scratch_transformer.conformance.invariants import tolerance

STATE, DEFINITION, INPUTS, ERRORS, PRECISION = "state", "definition", "inputs", "errors", "precision"
RAISES = "raises"
"""How a failure begins that is an exception, and not a wrong result."""


def failing(component: Component, dtype: torch.dtype = torch.float64) -> dict[str, str]:
    """The checks that `component.ours` fails, and how: the first failure of each."""
    failures = {}
    for name, check in _checks(component, dtype):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch's about its fast paths, and about old arguments
                failure = next((f for f in check() if f), None)
        except Exception as error:
            failure = f"{RAISES} {type(error).__name__}: {error}"
        if failure is not None:
            failures[name] = failure
    return failures


def _checks(component: Component, dtype: torch.dtype) -> Iterator[tuple[str, Callable[[], Iterator[str | None]]]]:
    yield STATE, functools.partial(_state, component)
    yield DEFINITION, functools.partial(_definition, component)
    yield INPUTS, functools.partial(_inputs, component)
    yield (
        ERRORS,
        lambda: (f"{case.description}: {fault}" for case in component.errors for fault in faults(component, case)),
    )
    for invariant in component.invariants:
        yield invariant.name, functools.partial(_invariant, component, invariant)
    if dtype != torch.float64:
        yield PRECISION, functools.partial(_precision, component, dtype)


def _state(component: Component) -> Iterator[str | None]:
    """Parameters and buffers: the builtin's names, shapes and initial values, and none shared."""
    constructed = {} if component.is_function else {repr(case.init): case for case in component.cases}
    for case in constructed.values():
        states = []
        for factory in (component.ours, component.builtin):
            torch.manual_seed(0)
            module = component.build(factory, case.init)
            assert isinstance(module, nn.Module)
            states.append(module.state_dict())
        ours, builtin = states
        if list(ours) != list(builtin):
            yield f"{case.description}: {sorted(set(ours) ^ set(builtin))} in one and not in the other"
        yield from (f"{case.description}: {name}" for name in ours if not torch.equal(ours[name], builtin[name]))
        if _storages(ours) != _storages(builtin):
            yield f"{case.description}: {_storages(ours)} tensors of its own, not {_storages(builtin)}"


def _storages(state: dict[str, Tensor]) -> int:
    return len({tensor.data_ptr() for tensor in state.values()})


def _definition(component: Component) -> Iterator[str | None]:
    """Outputs, gradients and what the call changed are the builtin's in float64."""
    for case in component.cases:
        equality = compare_definition(component, case)
        yield None if equality.passed else f"{case.description}: {equality}"


def _inputs(component: Component) -> Iterator[str | None]:
    """The caller's tensors are as they were."""
    for case in component.cases:
        call, untouched = (case.call(Draw(0)) for _ in range(2))
        callee = component.build(component.ours, case.init)
        if isinstance(callee, nn.Module):
            callee.double().train(case.training)
        callee(*call.args, **call.kwargs)
        pairs = zip([*call.args, *call.kwargs.values()], [*untouched.args, *untouched.kwargs.values()], strict=True)
        changed = any(isinstance(a, Tensor) and not torch.equal(a, b) for a, b in pairs)
        yield f"{case.description}: an input was changed in place" if changed else None


def _invariant(component: Component, invariant) -> Iterator[str | None]:
    violation = component.violation(invariant, component.ours, Draw(1))
    yield None if violation <= tolerance() else f"violated by {violation:.1e}"


def _precision(component: Component, dtype: torch.dtype) -> Iterator[str | None]:
    """Errors in low precision are not much larger than the builtin's."""
    for case in component.cases:
        precision = compare_precision(component, case, dtype)
        yield None if precision.passed else f"{case.description}: {precision}"
