"""Objects that are asked for what they lack and stop with a KeyError, as configs do that look names up in a dictionary.

Whoever asks what an object has, as `hasattr` and `inspect` do, counts on an AttributeError.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any


class Lacking(AttributeError, KeyError):
    """An object lacks the name, for those who expect either."""


def settle(module: types.ModuleType) -> None:
    """The classes of a learner's module, and of the objects in it, say what they lack so that everybody understands."""
    for value in list(vars(module).values()):
        for cls in (value if isinstance(value, type) else type(value)).__mro__:
            ask = vars(cls).get("__getattr__")
            if not isinstance(ask, types.FunctionType) or hasattr(ask, "__wrapped__"):
                continue
            if "-packages" not in ask.__code__.co_filename:
                cls.__getattr__ = _understood(ask)  # type: ignore[attr-defined]


def _understood(ask: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    @functools.wraps(ask)
    def asked(self: Any, name: str) -> Any:
        try:
            return ask(self, name)
        except AttributeError:
            raise
        except KeyError as error:
            raise Lacking(*error.args) from error

    return asked
