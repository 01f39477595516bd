"""What is only made by a method that is called after the constructor: model.tie_weights(), which makes its head."""

from __future__ import annotations

import contextlib
import dis
import inspect
import types
from collections.abc import Iterator
from typing import Any

from torch import nn

from scratch_transformer.kit.resolve.build.construct import parameters_of

CALLED = ("forward", "encode", "decode")


def finish(made: Any) -> list[str]:
    """Calls the methods that make what a module's forward reads and nothing has made yet. Gives a sentence on each."""
    said: list[str] = []
    for name, attribute in _makers(made) if isinstance(made, nn.Module) else ():
        if hasattr(made, attribute):
            continue
        with contextlib.suppress(Exception):  # the learner's code may raise anything
            getattr(made, name)()
            said.append(f"{name}() was called first, which makes its {attribute}.")
    return said


def _makers(made: nn.Module) -> Iterator[tuple[str, str]]:
    """Methods that need no argument, each with an attribute that it sets, which forward reads and does not set."""
    methods = {name: value for name, value in vars(type(made)).items() if inspect.isfunction(value)}
    own = [function for name, function in methods.items() if name in CALLED]
    read = {name for function in own for name in _attributes(function, "LOAD_")}
    kept = {name for function in own for name in _attributes(function, "STORE_")}
    for name, function in methods.items():
        if name in CALLED or name.startswith("__") or not _needs_nothing(function):
            continue
        for attribute in _attributes(function, "STORE_"):
            if attribute in read - kept:
                yield name, attribute


def _needs_nothing(function: types.FunctionType) -> bool:
    return all(p.name == "self" or p.default is not p.empty for p in parameters_of(function))


def _attributes(function: types.FunctionType, what: str) -> list[str]:
    """Those that its code reads, or sets."""
    return [one.argval for one in dis.get_instructions(function) if one.opname in (f"{what}ATTR", f"{what}METHOD")]
