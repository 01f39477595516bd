"""How a model is set while it decodes."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from scratch_transformer.generation.modes import evaluating
from scratch_transformer.model import Transformer
from scratch_transformer.translation.errors import InputError


@contextmanager
def deciding(model: Transformer) -> Iterator[None]:
    """All of the model in evaluation mode and without gradients; afterwards each part in the mode it was in."""
    with evaluating(model), torch.inference_mode(), _numpy_alone(), np.errstate(all="ignore"):
        yield


class _Limit:
    """How many calls want NumPy to compute on one thread at the moment, and what undoes that."""

    lock = threading.Lock()
    calls = 0
    set: Any = None


@contextmanager
def _numpy_alone() -> Iterator[None]:
    """NumPy's products on one thread, where that can be had: for those of a step, another would only be waited for."""
    with _Limit.lock:
        if _Limit.calls == 0 and (controller := _controller()) is not None:
            _Limit.set = controller.limit(limits=1)
        _Limit.calls += 1
    try:
        yield
    finally:
        with _Limit.lock:
            _Limit.calls -= 1
            if _Limit.calls == 0 and _Limit.set is not None:
                _Limit.set.restore_original_limits()
                _Limit.set = None


def numpy_can_be_alone() -> bool:
    """Whether threadpoolctl is there, and the library that multiplies for NumPy is one that it can tell."""
    return _controller() is not None


@functools.cache
def _controller() -> Any:
    """threadpoolctl's hold of that library, or None."""
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    found = ThreadpoolController().select(user_api="blas")
    return found if found.lib_controllers else None


def check_finite(scores: Tensor) -> None:
    """Raises InputError for NaN and infinity: what follows from them looks like a translation, and is none."""
    if not scores.isfinite().all():
        raise InputError("the model computes no finite numbers: its weights are of no use")


def check_length(model: Transformer, max_length: int) -> None:
    """Raises ValueError unless the model has positions for max_length tokens."""
    longest = model.tgt_pos.seq_len
    if not 1 <= max_length <= longest:
        raise ValueError(f"decoding: max_length must be from 1 to the model's seq_len={longest}, but is {max_length}")


def check_room(length: int, longest: int) -> None:
    """Raises ValueError unless a prefix of length tokens leaves room for one more."""
    if length == longest:
        raise ValueError(f"decoding: a prefix of {length + 1} tokens is longer than seq_len={longest}")
