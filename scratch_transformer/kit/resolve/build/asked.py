"""The settings with which a component is asked for."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

from torch import nn

from scratch_transformer.kit.definitions import is_module_class, leads_to, names_in, namespace_of, reads, source_of
from scratch_transformer.kit.kind import Kind
from scratch_transformer.kit.resolve.build.config import is_config
from scratch_transformer.kit.resolve.build.construct import parameters_of
from scratch_transformer.kit.resolve.build.reading import uses_of
from scratch_transformer.kit.resolve.names.inputs import is_mask
from scratch_transformer.kit.resolve.names.settings import is_called_head, settings_of

SMOOTHING, NO_PADDING = 0.1, -100
SHARED = {"d_model": 24, "num_heads": 6, "num_kv_heads": 3}
"""With three heads, keys and values can only be shared by all of them."""
WIRED = {"d_model": 48, "num_heads": 8}
"""Of layers that make eight heads, or two, three, four, six, whatever they are told."""
WIDE = {"d_model": 48, "num_heads": 6}
"""Of those whose heads are eight features wide."""


def settings(thing: Any, kind: Kind, given: Mapping[str, Any] | None) -> Iterator[dict[str, Any]]:
    """The settings to try: the kind's own, or what a person has given; one head too, where that can be meant."""
    base, own = kind.complete(given or {}), set(given or ())
    if "label_smoothing" in base.keys() - own and _means(thing, "label_smoothing"):
        base["label_smoothing"] = SMOOTHING  # without any, nobody sees where it goes
    if "label_smoothing" in base and "pad" not in own and not (_means(thing, "pad") or _is_told_what_counts(thing)):
        base["pad"] = NO_PADDING  # a loss that is told of none cannot leave it out
    if "num_heads" in base and "d_model" in base and not own & {"num_heads", "d_model"} and shares_heads(thing):
        base |= SHARED
    alone = {name: 1 if name in ("num_heads", "num_kv_heads") else value for name, value in base.items()}
    is_free = base.get("num_heads", 1) != 1 and kind.name.endswith("Attention") and "num_heads" not in own
    if not is_free:
        yield base
        if "d_ff" in base and "num_heads" in base and not own & {"num_heads", "d_model"} and _hides_heads(thing):
            yield base | WIRED
            yield base | WIDE
    elif kind.name != "ScaledDotProductAttention" and is_one_head(thing):
        yield from (alone, base)  # the search takes long where nothing fits
    else:
        yield from (base, alone)


def _is_told_what_counts(thing: Any) -> bool:
    """Whether a loss must be given a mask."""
    methods = [vars(thing)[name] for name in ("forward", "__call__") if name in vars(thing)]
    called = methods if isinstance(thing, type) else [thing]
    return any(p.default is p.empty and is_mask(p.name) for one in called for p in parameters_of(one))


def shares_heads(thing: Any) -> bool:
    """Whether a class, or what reads the same config, is told how many heads keys and values have."""
    if not isinstance(thing, type):
        return False
    if _means(thing, "num_kv_heads"):
        return True
    if not any(is_config(p) for p in parameters_of(thing)):
        return False
    classes = [value for value in namespace_of(thing).values() if isinstance(value, type)]
    inits = [getattr(vars(cls).get("__init__"), "__code__", None) for cls in classes]
    read = {name for code in inits if code is not None for name in code.co_names}
    return any("num_kv_heads" in settings_of(name)[:1] for name in read)


def _hides_heads(thing: Any) -> bool:
    """Whether a class is told its width and nothing of heads, but makes what has some: their number is fixed."""
    init = getattr(vars(thing).get("__init__"), "__code__", None) if isinstance(thing, type) else None
    if init is None or not _means(thing, "d_model") or _means(thing, "num_heads"):
        return False
    names = namespace_of(thing)
    made = [*(names.get(name, getattr(nn, name, None)) for name in init.co_names), *leads_to(thing)]
    parts = [cls for cls in made if is_module_class(cls)]
    return any(_means(cls, "num_heads") or _means(cls, "d_k") for cls in parts)


def has_heads(thing: Any) -> bool:
    """Whether a number of heads is among its parameters: with one head, mistakes in splitting them would not show."""
    return _means(thing, "num_heads") or _divides(thing)


def _divides(thing: Any) -> bool:
    """Whether its width is divided by a parameter: a number of heads, or what makes one: hidden_size // head_size."""
    return isinstance(thing, type) and any("num_heads" in use.meant for use in uses_of(thing).values())


def is_one_head(thing: Any) -> bool:
    """Whether a class says what it is built with, and neither that nor anything that its methods read is of heads.

    Of one that takes a config: nor anything in what it is made of, to which it may hand the config on.
    """
    if not isinstance(thing, type) or _divides(thing):
        return False
    try:
        parameters = list(inspect.signature(thing).parameters.values())
    except (TypeError, ValueError):
        return False
    left_open = [p.name for p in parameters if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if any(reads(inspect.unwrap(vars(thing).get("__init__", thing)), name) for name in left_open):  # it hands them on
        return False
    parameters = [p for p in parameters if p.name not in left_open]
    if any(is_config(p) for p in parameters):
        return not {"num_heads", "d_k"} & _meant_within(thing)
    if is_called_head(thing.__name__) and not _means(thing, "d_k"):
        return True
    read = {name for member in vars(thing).values() if inspect.isfunction(member) for name in member.__code__.co_names}
    called = {*re.findall(r"\bself\.(\w+)\(", source_of(thing))}  # self.head(x), which gives the scores of words
    names = (read - called) | {parameter.name for parameter in parameters}
    return bool(parameters) and not any("num_heads" in settings_of(name) for name in names)


def is_told_of_no_heads(thing: Any) -> bool:
    """Whether a class that is told nothing, as its sizes are the file's, has nothing of heads in what it is made of."""
    return isinstance(thing, type) and not parameters_of(thing) and "num_heads" not in _meant_within(thing)


def _meant_within(thing: Any) -> set[str]:
    return {setting for name in _said_within(thing) for setting in settings_of(name)}


def _said_within(thing: Any) -> set[str]:
    """All names in the code of a class and of what it is made of, with the keys that it asks for: config["n_head"]."""
    definitions = (thing, *leads_to(thing))
    keys = {key for one in definitions for key in re.findall(r"[\"'](\w+)[\"']", source_of(one))}
    return keys.union(*map(names_in, definitions))


def _means(thing: Any, setting: str) -> bool:
    return any(setting in settings_of(parameter.name) for parameter in parameters_of(thing))
