"""Which parts of a module run in a call of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn


def running(module: nn.Module | None, run: Callable[[], Any]) -> set[nn.Module]:
    """The parts that are called while something runs."""
    found: set[nn.Module] = set()
    parts = module.modules() if module is not None else ()
    handles = [part.register_forward_pre_hook(lambda part, _: found.add(part)) for part in parts]
    try:
        run()
    finally:
        for handle in handles:
            handle.remove()
    return found
