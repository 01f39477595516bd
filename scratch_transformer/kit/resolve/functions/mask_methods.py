"""Methods that make masks, def get_tgt_mask(self, size): functions of what they are given beside their object."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from typing import Any

from torch import nn

from scratch_transformer.kit.definitions import is_own, names_in
from scratch_transformer.kit.resolve.functions import mask_makers
from scratch_transformer.kit.resolve.names.settings import settings_of
from scratch_transformer.kit.resolve.names.words import plain

CALLED = ("forward", "__call__")
PAD = 0
"""The padding's id, as kinds/decoding.py has it."""


def methods_of(thing: Any) -> Iterator[tuple[str, Any, bool]]:
    """Those of a class, by name, and whether its forward calls them: then they are judged in that, unless it stops."""
    if not isinstance(thing, type) or (mask_makers.kind_of(thing) and not issubclass(thing, nn.Module)):
        return
    members = {name: getattr(one, "__func__", one) for name, one in vars(thing).items() if name not in CALLED}
    methods = {name: one for name, one in members.items() if inspect.isfunction(one) and not name.startswith("__")}
    reached = _reached(thing, methods) if issubclass(thing, nn.Module) else set()
    for name, method in methods.items():
        function = _alone(method, thing, isinstance(vars(thing)[name], staticmethod))
        if function is not None and mask_makers.kind_of(function):
            yield name, function, name in reached


def _reached(thing: type, methods: dict[str, Any]) -> set[str]:
    """The names of methods that a call of the forward comes to."""
    waiting = [vars(thing)[name] for name in CALLED if name in vars(thing)]
    reached = set[str]()
    while waiting:
        new = [name for name in names_in(waiting.pop()) if name in methods and name not in reached]
        reached |= {*new}
        waiting += [methods[name] for name in new]
    return reached


def _alone(method: Any, owner: type, is_static: bool) -> Any:
    """The method without its object; None of what has none, or is a property."""
    signature = inspect.signature(method)
    own = [*signature.parameters.values()][0 if is_static else 1 :]
    if not is_static and not signature.parameters:
        return None

    @functools.wraps(method)
    def mask(*given: Any, **named: Any) -> Any:
        return method(*(() if is_static else (_Stand(owner),)), *given, **named)

    mask.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
    mask.of_class = owner  # type: ignore[attr-defined]
    return mask


class _Stand:
    """In an object's place: its methods, and of what its constructor keeps the padding's id and a device."""

    def __init__(self, owner: type) -> None:
        self.__dict__["owner"] = owner

    def __getattr__(self, name: str) -> Any:
        for cls in self.owner.__mro__:
            if is_own(cls) and name in vars(cls) and hasattr(vars(cls)[name], "__get__"):
                return vars(cls)[name].__get__(self, self.owner)
        if "pad" in settings_of(name)[:1]:
            return PAD
        if plain(name) == "device":
            return "cpu"
        raise AttributeError(f"{self.owner.__name__} has no attribute {name!r} without its constructor")
