"""The comparison of refusals: bad input gets the builtin's exception type, and a message that helps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from scratch_transformer.conformance.component import Component, ErrorCase
from scratch_transformer.conformance.draw import Draw


def faults(component: Component, case: ErrorCase) -> list[str]:
    """What is wrong with ours (or with the table's claim about the builtin) in this error case: nothing if it is right.

    Runs in float32 on the CPU, whatever else is compared: on CUDA an id out of range ends the whole process.
    """
    ours = raised(component, component.ours, case)
    found = []
    if not isinstance(ours, case.error):
        found.append(f"ours must raise {case.error.__name__}, but {_described(ours)}")
    else:
        missing = [fragment for fragment in case.says if fragment not in str(ours)]
        found += [f"the message must contain {fragment!r}, but is {str(ours)!r}" for fragment in missing]
    if case.torch_raises:
        builtin = raised(component, component.builtin, case)
        if not isinstance(builtin, case.error):
            found.append(f"the builtin must raise {case.error.__name__}, but {_described(builtin)}")
    return found


def raised(component: Component, factory: Callable[..., Any], case: ErrorCase) -> Exception | None:
    """What building or calling `factory` with the bad input raises."""
    try:
        callee = component.build(factory, case.init)
        if case.call is not None:
            if isinstance(callee, torch.nn.Module):
                callee.train()  # some refuse only what they would learn from
            call = case.call(Draw(dtype=torch.float32))
            callee(*call.args, **call.kwargs)
    except Exception as error:
        return error
    return None


def _described(error: Exception | None) -> str:
    return "nothing is raised" if error is None else f"{type(error).__name__} is raised: {error}"
