"""Sizes that a class does not pass on to its parts, so that their defaults are hard-wired: 64 features of a head."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from scratch_transformer.kit.resolve.names.settings import settings_of

HARD_WIRED = ("d_k", "num_heads", "num_kv_heads")


@contextmanager
def told(classes: Iterable[type], settings: Mapping[str, Any]) -> Iterator[bool]:
    """In the block, what constructors have as defaults for heads fits the settings. Gives whether any does."""
    heads = settings.get("num_heads") or 1
    values = {"num_heads": heads, "num_kv_heads": heads, "d_k": settings.get("d_model", heads) // heads, **settings}
    kept = []
    for function in {init for cls in classes if (init := vars(cls).get("__init__")) and hasattr(init, "__code__")}:
        before = function.__defaults__ or ()
        names = function.__code__.co_varnames[: function.__code__.co_argcount][-len(before) :] if before else ()
        after = tuple(_told(name, value, values) for name, value in zip(names, before, strict=True))
        if after != before:
            kept.append((function, before))
            function.__defaults__ = after
    try:
        yield bool(kept)
    finally:
        for function, before in kept:
            function.__defaults__ = before


def _told(name: str, default: Any, values: Mapping[str, Any]) -> Any:
    meant = settings_of(name)[:1]
    return values[meant[0]] if type(default) is int and default > 1 and meant and meant[0] in HARD_WIRED else default
