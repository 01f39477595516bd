"""The modules of the table of components, in pairs: ours beside torch's, with the same random parameters."""

import copy

import pytest
import torch

from scratch_transformer.conformance import COMPONENTS, Draw

MODULES = [component for component in COMPONENTS.values() if not component.is_function]
DROP_INS = [component for component in MODULES if component.is_drop_in]
CASES = [(component, case) for component in MODULES for case in component.cases]


# torch's: that its encoder will not take the fast path, that two arguments of its loss are old, that it guesses, and
# that a norm in mixed precision is slow
QUIET = [
    pytest.mark.filterwarnings(f"ignore:{message}")
    for message in (
        "enable_nested_tensor is True",
        "size_average and reduce",
        "Implicit dimension choice",
        "Mismatch dtype between input and weight",
    )
]


def _distinct(cases):
    """One case for every set of constructor arguments."""
    return list({f"{component.name} {dict(case.init)}": (component, case) for component, case in cases}.values())


def _ids(cases):
    return [f"{component.name}: {case.description}" for component, case in cases]


def over(cases, long=()):
    """long: the components whose cases are marked as such."""
    given = [pytest.param(*case, marks=[pytest.mark.long] if case[0].name in long else []) for case in cases]
    return pytest.mark.parametrize(("component", "case"), given, ids=_ids(cases))


every_drop_in = pytest.mark.parametrize("component", DROP_INS, ids=[component.name for component in DROP_INS])
every_module = pytest.mark.parametrize("component", MODULES, ids=[component.name for component in MODULES])
one_case_each = over([(component, component.cases[0]) for component in MODULES])
every_case = over(CASES)
every_constructor = over(_distinct(CASES))


def takes(case, *names):
    """Whether any of these constructor arguments is given, and not as False or 0."""
    return any(case.init.get(name) for name in names)


def build(component, case, **options):
    """Ours and torch's, freshly constructed."""
    return tuple(component.build(f, {**case.init, **options}) for f in (component.ours, component.builtin))


def make(component, case, dtype=torch.float64, device="cpu", seed=0):
    """Ours and torch's, in the case's mode, with the same parameters, none of them zero."""
    ours, builtin = build(component, case)
    Draw(seed, dtype).randomise(builtin)
    ours.load_state_dict(builtin.state_dict())
    return tuple(module.to(device, dtype).train(case.training) for module in (ours, copy.deepcopy(builtin)))


def draw(case, dtype=torch.float64, device="cpu", seed=1):
    """Positional and keyword arguments of a call."""
    call = case.call(Draw(seed, dtype, str(device)))
    return call.args, call.kwargs
