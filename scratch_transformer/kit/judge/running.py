"""Which parts of a module run in a call of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from scratch_transformer.conformance.switches import fast_path
from scratch_transformer.kit.arrays.module import roots_of


def running(module: nn.Module | None, run: Callable[[], Any]) -> set[nn.Module]:
    """The parts that are called while something runs, by part(x) or by part.forward(x), which no hook hears of.

    Instances of classes of arrays call each other: all parts of such a module count as called.
    """
    found = {part for root in roots_of(module) for part in root.modules()}
    parts = list(module.modules()) if module is not None else []
    own = {part: vars(part).pop("forward") for part in parts if "forward" in vars(part)}
    for part in parts:
        vars(part)["forward"] = _noting(part, own.get(part, part.forward), found)
    try:
        with fast_path(False):  # which computes a layer without calling its parts
            run()
    finally:
        for part in parts:
            del vars(part)["forward"]
            vars(part).update({"forward": own[part]} if part in own else {})
    return found


def _noting(part: nn.Module, forward: Callable[..., Any], found: set[nn.Module]) -> Callable[..., Any]:
    def noting(*args: Any, **options: Any) -> Any:
        found.add(part)
        return forward(*args, **options)

    return noting
