"""How a model, and torch, is set while it generates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from scratch_transformer.nn import Module

ALONE = 1 << 17
"""Multiplications that one thread has done before they are shared out among several."""


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


@contextmanager
def one_thread(largest: int) -> Iterator[None]:
    """One thread instead of several, where the largest product of what is computed is of so few multiplications.

    Every operation would wait for all threads, whether there is anything for them or not. What other threads of Python
    compute meanwhile has the number that they have begun with.
    """
    usual = torch.get_num_threads()
    if largest > ALONE or usual == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(usual)
