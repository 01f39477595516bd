"""A mutant: the package with one mistake in it, and the checks that must see it."""

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch import nn

from scratch_transformer.conformance import Case
from scratch_transformer.kit.mistakes import MISTAKES


@dataclass(frozen=True)
class Patch:
    """`replacement` in place of an attribute of a module or class, or of an entry of a dictionary."""

    owner: Any
    name: str
    replacement: Any

    def applied(self) -> Any:
        if isinstance(self.owner, dict):
            return mock.patch.dict(self.owner, {self.name: self.replacement})
        return mock.patch.object(self.owner, self.name, self.replacement)


@dataclass(frozen=True)
class Mutant:
    """One small change of this package.

    id: the entry of the kit's catalogue of mistakes, "A1", and the variant if there are several, "A1-unscaled".
    mistake: what the mutant does, and what is right.
    component: the part of the table in which it shows.
    caught_by: checks that must fail, by name; empty for a change that is harmless.
    harmless: why the change is none that a check of results could or should object to.
    shows_in: of a harmless change, the cases whose results differ nevertheless.
    dtype: the precision in which it shows, if not in float64.
    crashes: whether it raises an exception where the real code computes.
    """

    id: str
    mistake: str
    component: str
    patches: tuple[Patch, ...]
    caught_by: tuple[str, ...] = ()
    harmless: str = ""
    shows_in: Callable[[Case], bool] = lambda case: False
    dtype: torch.dtype = torch.float64
    crashes: bool = False

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The package has the mistake inside this context."""
        with ExitStack() as stack:
            for patch in self.patches:
                stack.enter_context(patch.applied())
            yield


def variant(id: str, name: str = "") -> Mapping[str, Any]:
    """What the kit's catalogue changes of its recipe for a variant of a mistake."""
    return MISTAKES[id].changes[name]


def after_init(cls: type[nn.Module], change: Callable[[Any], Any]) -> Patch:
    """Every new `cls` is changed by `change(module)`."""
    original: Any = cls.__init__

    @functools.wraps(original)
    def __init__(self: nn.Module, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        change(self)

    return Patch(cls, "__init__", __init__)


def around(cls: type, method: str, replacement: Callable[..., Any]) -> Patch:
    """`replacement(original, self, ...)` in place of a method."""
    return Patch(cls, method, functools.partialmethod(_call, replacement, getattr(cls, method)))


def _call(self: Any, replacement: Callable[..., Any], original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return replacement(original, self, *args, **kwargs)
