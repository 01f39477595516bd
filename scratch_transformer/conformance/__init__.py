"""Checks an implementation of the Transformer: ours against torch.nn, by one table of components."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scratch_transformer.conformance.compare import compare_definition, compare_precision
from scratch_transformer.conformance.component import Call, Case, Component, ErrorCase, Invariant
from scratch_transformer.conformance.draw import Draw
from scratch_transformer.conformance.table import COMPONENTS

if TYPE_CHECKING:
    from scratch_transformer.conformance.kit import assert_equivalent, check

__all__ = [
    "COMPONENTS",
    "Call",
    "Case",
    "Component",
    "Draw",
    "ErrorCase",
    "Invariant",
    "assert_equivalent",
    "check",
    "compare_definition",
    "compare_precision",
]


def __getattr__(name: str) -> Any:
    """The kit is large, and loaded when it is first used."""
    if name in ("assert_equivalent", "check"):
        from scratch_transformer.conformance import kit

        return getattr(kit, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
