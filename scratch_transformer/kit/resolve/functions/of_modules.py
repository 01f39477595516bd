"""Attention that is handed the module which calls it: eager_attention(module, query, key, value, mask, scaling).

It asks the module whether it is in training, and how many heads of queries share one of keys: here each has its own.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

from scratch_transformer.kit.definitions import parameters_of
from scratch_transformer.kit.kind import Kind
from scratch_transformer.kit.resolve.build.reading import uses_of
from scratch_transformer.kit.resolve.names.inputs import input_of
from scratch_transformer.kit.resolve.names.settings import settings_of

TENSORS = ("query", "key", "value")
SHARING = {"num_kv_heads", "num_heads/num_kv_heads"}
"""Settings that are 1 where no head is shared, by the names that modules have for them."""


def attends(function: Any) -> bool:
    """Whether a function is such a one."""
    return bool(_asked(function))


def readings(function: Callable[..., Any], kind: Kind) -> list[Callable[..., Any]]:
    """The function of tensors alone, with a module in evaluation mode; [] if it takes none."""
    asked = _asked(function) if kind.name == "ScaledDotProductAttention" else {}
    if not asked:
        return []
    given = {name: types.SimpleNamespace(**values) for name, values in asked.items()}

    @functools.wraps(function)
    def of_tensors(**named: Any) -> Any:
        return function(**named, **given)

    signature = inspect.signature(function)
    left = [p.replace(kind=p.KEYWORD_ONLY) for p in parameters_of(function) if p.name not in given]
    of_tensors.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
    return [of_tensors]


def _asked(function: Any) -> dict[str, dict[str, Any]]:
    """The parameter that takes a module -> what that is asked for, if known; beside queries, keys and values."""
    parameters = parameters_of(function) if inspect.isfunction(function) else []
    first = parameters[0].name if parameters else ""
    use = uses_of(function).get(first) if parameters else None
    left = list(TENSORS)
    for parameter in parameters[1:]:
        if meant := input_of(parameter.name, tuple(left)):
            left.remove(meant)
    if use is None or left or use.applied or use.called or use.keys or input_of(first, TENSORS):
        return {}
    values = {name: _value(name) for name in use.attributes}
    return {first: values} if "training" in values and None not in values.values() else {}


def _value(attribute: str) -> Any:
    """Of what a module is asked for; None for what nobody knows."""
    if attribute == "training":
        return False
    return 1 if SHARING & {*settings_of(attribute)} or attribute.endswith("_groups") else None
