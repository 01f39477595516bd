"""The settings with which a component is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from scratch_transformer.conformance.kit.kind import Kind
from scratch_transformer.conformance.kit.resolve.construct import parameters_of
from scratch_transformer.conformance.kit.resolve.synonyms import settings_of

SMOOTHING, NO_PADDING = 0.1, -100


def settings(thing: Any, kind: Kind, given: Mapping[str, Any] | None) -> Iterator[dict[str, Any]]:
    """The settings to try: the kind's own, or what a person has given; one head, for a class that has no heads."""
    base, own = kind.complete(given or {}), set(given or ())
    if "label_smoothing" in base.keys() - own and _means(thing, "label_smoothing"):
        base["label_smoothing"] = SMOOTHING  # without any, nobody sees where it goes
    if "label_smoothing" in base and "pad" not in own and not _means(thing, "pad"):
        base["pad"] = NO_PADDING  # a loss that is told of none cannot leave it out
    yield base
    if base.get("num_heads", 1) != 1 and kind.name.endswith("Attention") and "num_heads" not in own:
        yield {**base, "num_heads": 1}


def has_heads(thing: Any) -> bool:
    """Whether a number of heads is among its parameters: with one head, mistakes in splitting them would not show."""
    return _means(thing, "num_heads")


def _means(thing: Any, setting: str) -> bool:
    return any(setting in settings_of(parameter.name) for parameter in parameters_of(thing))
