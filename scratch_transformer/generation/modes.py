"""How a model is set while it generates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from scratch_transformer.nn import Module


@contextmanager
def evaluating(model: Module) -> Iterator[None]:
    """All of the model in evaluation mode; afterwards each part in the mode it was in."""
    in_training = [module for module in model.modules() if module.training]
    try:
        for module in in_training:
            module.training = False
        yield
    finally:
        for module in in_training:
            module.training = True
