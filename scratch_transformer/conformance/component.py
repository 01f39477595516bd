"""What the table of components is made of: a component, its cases, the errors it must raise, its invariants."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from scratch_transformer.conformance.draw import Draw


class Call:
    """The arguments of one call: `Call(x, is_causal=True)`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args = args
        self.kwargs = kwargs


@dataclass(frozen=True)
class Case:
    """One way to construct a component and to call it.

    init: constructor arguments (of a function: arguments given to every call).
    call: draws the inputs.
    training: compare in train mode, with the same seed before both calls, so that dropout drops the same elements.
    """

    description: str
    call: Callable[[Draw], Call]
    init: Mapping[str, Any] = field(default_factory=dict)
    training: bool = False


@dataclass(frozen=True)
class ErrorCase:
    """Bad input, and what the error must be.

    call: None if the constructor refuses already.
    says: what the message must contain: the argument, its value, what was expected.
    torch_raises: whether the builtin refuses this input too, with an exception of the same type.
    """

    description: str
    error: type[Exception]
    says: tuple[str, ...]
    init: Mapping[str, Any] = field(default_factory=dict)
    call: Callable[[Draw], Call] | None = None
    torch_raises: bool = True


@dataclass(frozen=True)
class Invariant:
    """A property that needs no oracle.

    error: `error(build, draw)` says how far off an implementation is (0 = the property holds); `build(**init)` makes
        the component, ours or the builtin or anybody's, from constructor arguments. See `Component.violation`.
    torch_holds: whether the builtin has the property too.
    """

    name: str
    error: Callable[..., float]
    torch_holds: bool = True


@dataclass(frozen=True)
class Component:
    """A class or function of this package, its builtin, and everything that is checked about it.

    builtin: torch's, or, where it has none, a counterpart made of torch's parts: `counterparts`.
    """

    name: str
    ours: Callable[..., Any]
    builtin: Callable[..., Any]
    source: str
    cases: tuple[Case, ...]
    errors: tuple[ErrorCase, ...] = ()
    invariants: tuple[Invariant, ...] = ()
    assemble: Callable[..., Any] | None = None
    """For components made of other modules: `assemble(factory, **init)` in place of `factory(**init)`."""

    @property
    def is_function(self) -> bool:
        """Whether the component is a function, without parameters of its own."""
        return not isinstance(self.ours, type)

    @property
    def is_drop_in(self) -> bool:
        """Whether the builtin is torch's own, and not a counterpart put together from its parts."""
        return self.builtin.__module__.partition(".")[0] == "torch"

    def build(self, factory: Callable[..., Any], init: Mapping[str, Any]) -> Callable[..., Any]:
        """`factory`, ours or the builtin or anybody's, ready to be called: a constructed module, or a function."""
        if self.is_function:
            return functools.partial(factory, **init)
        return factory(**init) if self.assemble is None else self.assemble(factory, **init)

    def violation(self, invariant: Invariant, factory: Callable[..., Any], draw: Draw, *setting: Any) -> float:
        """How far `factory` is off an invariant of this component, 0 if it holds. See `invariants.Setting`."""
        return invariant.error(functools.partial(self._from_arguments, factory), draw, *setting)

    def _from_arguments(self, factory: Callable[..., Any], **init: Any) -> Callable[..., Any]:
        return self.build(factory, init)
