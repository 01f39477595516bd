"""The names that a docstring gives to the tensors of a dictionary: `attn.q_proj.weight`, `layers.{i}.ln1.weight`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

NAME = re.compile(r"^\W*`([\w.{}]+\.(?:weight|bias))`", re.MULTILINE)
"""One that begins a line, after what marks an item of a list."""
LAYER = re.compile(r"\{\w+\}")


def names(function: Callable[..., Any], layers: int) -> list[str]:
    """All of them in their order, those of a layer once for each."""
    found = dict.fromkeys(NAME.findall(inspect.getdoc(inspect.unwrap(function)) or ""))
    counted = [(name, range(layers) if LAYER.search(name) else range(1)) for name in found]
    return [LAYER.sub(str(index), name) for name, indices in counted for index in indices]
