"""The settings with which a component is asked for."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from scratch_transformer.kit.kind import Kind
from scratch_transformer.kit.resolve.build.config import is_config
from scratch_transformer.kit.resolve.build.construct import parameters_of
from scratch_transformer.kit.resolve.names.settings import settings_of

SMOOTHING, NO_PADDING = 0.1, -100


def settings(thing: Any, kind: Kind, given: Mapping[str, Any] | None) -> Iterator[dict[str, Any]]:
    """The settings to try: the kind's own, or what a person has given; one head too, where that can be meant."""
    base, own = kind.complete(given or {}), set(given or ())
    if "label_smoothing" in base.keys() - own and _means(thing, "label_smoothing"):
        base["label_smoothing"] = SMOOTHING  # without any, nobody sees where it goes
    if "label_smoothing" in base and "pad" not in own and not _means(thing, "pad"):
        base["pad"] = NO_PADDING  # a loss that is told of none cannot leave it out
    is_free = base.get("num_heads", 1) != 1 and kind.name.endswith("Attention") and "num_heads" not in own
    if not is_free:
        yield base
    elif kind.name != "ScaledDotProductAttention" and is_one_head(thing):
        yield from ({**base, "num_heads": 1}, base)  # the search takes long where nothing fits
    else:
        yield from (base, {**base, "num_heads": 1})


def has_heads(thing: Any) -> bool:
    """Whether a number of heads is among its parameters: with one head, mistakes in splitting them would not show."""
    return _means(thing, "num_heads")


def is_one_head(thing: Any) -> bool:
    """Whether a class says what it is built with, and neither that nor anything that its methods read is of heads."""
    if not isinstance(thing, type):
        return False
    try:
        parameters = list(inspect.signature(thing).parameters.values())
    except (TypeError, ValueError):
        return False
    is_open = any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) or is_config(p) for p in parameters)
    codes = [getattr(member, "__code__", None) for member in vars(thing).values()]
    read = {name for code in codes if code is not None for name in code.co_names}
    names = read | {parameter.name for parameter in parameters}
    return bool(parameters) and not is_open and not any("num_heads" in settings_of(name) for name in names)


def _means(thing: Any, setting: str) -> bool:
    return any(setting in settings_of(parameter.name) for parameter in parameters_of(thing))
