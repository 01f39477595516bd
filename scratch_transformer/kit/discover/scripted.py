"""TorchScript taken away while a learner's file runs: what is compiled has no signature and no text to read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn


class ScriptModule(nn.Module):
    """In place of torch.jit.ScriptModule: a module like any other."""


def _as_it_is(thing: Any = None, *args: Any, **options: Any) -> Any:
    """A decorator that changes nothing, also one with options."""
    return _as_it_is if thing is None else thing


PLAIN = {
    "ScriptModule": ScriptModule,
    **dict.fromkeys(("script", "script_method", "script_if_tracing", "export", "ignore", "unused"), _as_it_is),
}
"""Names in torch.jit -> what is written in their place."""


@contextlib.contextmanager
def as_python() -> Iterator[None]:
    """Within the block torch.jit compiles nothing: the same numbers come from the code as it is written."""
    before = {name: getattr(torch.jit, name) for name in PLAIN}
    for name, plain in PLAIN.items():
        setattr(torch.jit, name, plain)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(torch.jit, name, value)
