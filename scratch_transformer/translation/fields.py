"""What a setting may be: a field of a dataclass that says so, and the check. Types are read off their annotations."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from scratch_transformer.translation.errors import InputError

READERS: dict[str, Any] = {"int": int, "float": float, "str": str, "bool": {"true": True, "false": False}.__getitem__}
KINDS = {"int": "a whole number", "float": "a number", "str": "a text", "bool": "true or false"}
TYPES: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "str": (str,), "bool": (bool,)}


def number(default: float | None, low: float, high: float = math.inf, *, below: bool = False) -> Any:
    """A field for a number from low to high; `below`: high itself, or infinity, is not allowed."""
    return dataclasses.field(default=default, metadata={"low": low, "high": high, "below": below or high == math.inf})


def choice(default: str, *others: str) -> Any:
    """A field for one of several words."""
    return dataclasses.field(default=default, metadata={"choices": (default, *others)})


def read(name: str, text: str, field: dataclasses.Field[Any]) -> Any:
    """The value of a setting that was given as text.

    Raises:
        InputError: the text is no value of the setting's type.
    """
    kind, optional = _kind(field)
    if optional and text == "none":
        return None
    try:
        return READERS[kind](text)
    except (ValueError, KeyError):
        raise InputError(f"{name} is {text!r}: expected {KINDS[kind]}") from None


def check(name: str, value: Any, field: dataclasses.Field[Any]) -> None:
    """Whether a value is one that the setting may have.

    Raises:
        InputError: it is not.
    """
    kind, optional = _kind(field)
    if value is None and optional:
        return
    if not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind != "bool"):
        raise InputError(f"{name} is {value!r}: expected {KINDS[kind]}")
    choices = field.metadata.get("choices")
    if choices and value not in choices:
        raise InputError(f"{name} is {value!r}: expected one of {', '.join(choices)}")
    if "low" in field.metadata:
        low, high, below = (field.metadata[key] for key in ("low", "high", "below"))
        if not low <= value <= high or (value == high and below):
            limits = f"of at least {low}" if high == math.inf else f"from {low} to {'below ' if below else ''}{high}"
            raise InputError(f"{name} is {value}: expected {KINDS[kind]} {limits}")


def _kind(field: dataclasses.Field[Any]) -> tuple[str, bool]:
    """The type of a setting, as it is written, and whether it may be None."""
    kind, _, optional = str(field.type).partition(" | ")
    return kind, bool(optional)
