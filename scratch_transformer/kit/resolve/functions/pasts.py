"""What stands for keys and values where a toy model is called with them: the ids that it was given so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor


class Past:
    """What the toy gives as its keys and values: the ids that it was given so far.

    It is the keys of every layer, too: past[0][0].shape[2] is how many tokens there are, and shape[1] where some have
    their heads behind the tokens.
    """

    __iter__ = None

    def __init__(self, ids: Tensor) -> None:
        self.ids = ids
        self.shape = torch.Size((ids.numel() // ids.shape[-1], ids.shape[-1], ids.shape[-1], 1))

    def __getitem__(self, place: Any) -> Past:
        return self

    def size(self, dim: int) -> int:
        return self.shape[dim]


class Pasts:
    """The ids before those that the toy is given, where it is told of them by what it gave, a cache or their number."""

    def __init__(self) -> None:
        self.last: Tensor | None = None
        self.keeps = False
        self.caches: dict[int, tuple[Any, Tensor]] = {}  # kept, so that no other gets its place

    def start(self) -> None:
        """Forgets all, and keeps what comes: model.reset_cache()."""
        self.last, self.keeps = None, True

    def joined(self, ids: Tensor, given: Sequence[Any], options: Mapping[str, Any]) -> tuple[Tensor, Past]:
        """With those before them; what begins with those already is a text as a whole."""
        told = [value for name, value in options.items() if "cache" in name and isinstance(value, bool)]
        keeps = any(told) if told else self.keeps  # inside of the model: use_cache=True
        before = self.last if keeps else self._before(ids, given)
        fits = before is not None and before.dim() == ids.dim() and before.shape[:-1] == ids.shape[:-1]
        if before is not None and fits and not torch.equal(ids[..., : before.shape[-1]], before):
            ids = torch.cat([before, ids], -1)
        self.last = ids
        for one in filter(_is_cache, given):
            self.caches[id(one)] = (one, ids)
        return ids, Past(ids)

    def _before(self, ids: Tensor, given: Sequence[Any]) -> Tensor | None:
        for one in given:
            if isinstance(one, Past):
                return one.ids
            if _is_cache(one) and id(one) in self.caches:
                return self.caches[id(one)][1]
        counts = [one for one in given if type(one) is int and one > 0]
        counts += [int(one.flatten()[0]) for one in given if one is not ids and _is_of_places(one)]
        return self.last if self.last is not None and self.last.shape[-1] in counts else None


def _is_of_places(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype in (torch.long, torch.int) and value.numel() > 0


def _is_cache(value: Any) -> bool:
    """Whether it is somebody's own object, or a list of what is no number, that a model may keep keys and values in."""
    if isinstance(value, (list, dict)):
        return not any(isinstance(one, (int, float)) for one in value)
    known = (Tensor, np.ndarray, str, int, float, bool, tuple, torch.device, torch.dtype, Past, type(None))
    return not isinstance(value, known)
