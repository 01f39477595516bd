"""What a learner's function may be taken for: as it is, of NumPy arrays, of sizes, of inputs and weights."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from scratch_transformer.kit.arrays.engines import engine_of, of_its_tensors
from scratch_transformer.kit.arrays.libraries import libraries
from scratch_transformer.kit.arrays.turning import of_arrays
from scratch_transformer.kit.kind import Kind
from scratch_transformer.kit.resolve.functions import mask_functions, of_modules, sizes, weighted


def readings(thing: Any, kind: Kind, settings: Mapping[str, Any]) -> Iterator[Any]:
    """All of them, the likeliest first; an instance is what it is."""
    if not inspect.isfunction(thing):
        yield thing
        return
    used = libraries(thing)
    if "numpy" not in used or "torch" in used:
        yield from _of(thing, kind, settings)
    if "numpy" in used:
        yield from _of(of_arrays(of_its_tensors(thing, engine_of(thing))), kind, settings)


def _of(function: Any, kind: Kind, settings: Mapping[str, Any]) -> list[Any]:
    special = sizes.of_sizes(function, kind) or mask_functions.readings(function, kind, settings.get("pad", 0))
    special = special or of_modules.readings(function, kind)
    return special or weighted.weighted(function, kind, settings) or [function]
