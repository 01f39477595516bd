"""Where an array is in a learner's instance: as an attribute, in a dictionary, in a list."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

GRADIENT = re.compile(r"grad", re.IGNORECASE)


@dataclass
class Place:
    """name: of the parameter. array: itself. owner, key: the object, dictionary or list that has it, and under what."""

    name: str
    array: np.ndarray
    owner: Any
    key: Any

    @property
    def now(self) -> Any:
        """What is there now: a method may have put another array in the place of the first."""
        is_container = isinstance(self.owner, (dict, list, tuple))
        return self.owner[self.key] if is_container else getattr(self.owner, self.key)


def boxed(value: Any) -> str:
    """Under what name an object keeps a weight, if that and its gradient are all the arrays that it has; else ""."""
    kept = getattr(value, "__dict__", {})
    arrays = [name for name, one in kept.items() if isinstance(one, np.ndarray) and not GRADIENT.search(name)]
    return arrays[0] if len(arrays) == 1 and any(map(GRADIENT.search, kept)) else ""


def written(module: nn.Module, places: Iterable[Place]) -> None:
    """Puts the values of a module's parameters into their arrays."""
    for place in places:
        values = module._parameters.get(place.name)
        if values is not None:
            place.array[...] = values.detach().numpy()
