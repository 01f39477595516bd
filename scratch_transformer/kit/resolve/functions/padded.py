"""Functions of padding that are given no ids in one tensor: how long every sentence is, or sentences in a list."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from scratch_transformer.kit.definitions import names_in, parameters_of
from scratch_transformer.kit.resolve.names.inputs import LENGTHS
from scratch_transformer.kit.resolve.names.settings import settings_of
from scratch_transformer.kit.resolve.names.words import plain

OF_LISTS = {"len", "pad_sequence"}
"""What is asked of lists of unequal length."""
LENGTH = ("length", "size", "maxsize", "longest", "seqlen")
UNPADDED = "It was given {}, none of them padded."


def is_of_lengths(function: Any) -> bool:
    """Whether a function of masks is given the lengths of sentences, and nothing else but how long a mask to make."""
    if not inspect.isfunction(function) or "mask" not in plain(function.__name__):
        return False
    given = parameters_of(function)
    required = [p.name for p in given[1:] if p.default is p.empty]
    return bool(given) and bool(LENGTHS.search(plain(given[0].name))) and all(map(_is_length, required))


def _is_length(name: str) -> bool:
    return "max_len" in settings_of(name)[:1] or plain(name) in LENGTH


def by_lengths(function: Callable[..., Any], pad: int) -> Iterator[Callable[..., Any]]:
    """Readings of it as one of ids."""
    first, *others = parameters_of(function)
    longest = [p.name for p in others if _is_length(p.name)]

    def reading(form: Callable[[Tensor], Any]) -> Callable[..., Any]:
        def mask(ids: Tensor) -> Any:
            given = {first.name: form((ids != pad).sum(1)), **dict.fromkeys(longest, ids.shape[1])}
            return _placed(function(**given), ids == pad)

        return mask

    yield from (reading(lambda lengths: lengths), reading(Tensor.tolist))


def by_lists(function: Callable[..., Any], required: list[str], pad: int) -> Iterator[Callable[..., Any]]:
    """The same of one that is given sentences of unequal lengths, of numbers or tensors; none of what asks for none."""
    takes_id = required[1:] == [] or (len(required) == 2 and "pad" in plain(required[1]))
    if not takes_id or not required or not (names_in(function) & OF_LISTS or "list" in _annotation(function)):
        return
    options = dict.fromkeys(required[1:], pad)

    def reading(form: Callable[[Tensor], Any], fills: bool, said: str) -> Callable[..., Any]:
        def mask(ids: Tensor) -> Any:
            rows = [form(row if fills else row[row != pad]) for row in ids]
            made = function(**{required[0]: rows}, **options)
            return made if fills else _placed(made, ids == pad)

        mask.note = said  # type: ignore[attr-defined]
        return mask

    yield reading(Tensor.tolist, True, "It was given lists of numbers.")
    yield reading(Tensor.tolist, False, UNPADDED.format("lists of numbers"))
    yield reading(Tensor.clone, False, UNPADDED.format("a list of tensors"))


def _annotation(function: Any) -> str:
    return inspect.formatannotation(parameters_of(function)[0].annotation).lower()


def _placed(made: Any, is_padding: Tensor) -> Any:
    """The mask of sentences with padding anywhere, (B, S), of that of the same with all of it behind the words."""
    mask = made if isinstance(made, Tensor) else torch.as_tensor(made)
    places = is_padding.long().argsort(dim=1, stable=True).argsort(1)  # where each of them is then
    for axis in (-1, -2)[: mask.dim() - 1]:
        if mask.shape[axis] == places.shape[1] and mask.shape[0] == len(places):
            index = places if axis == -1 else places[..., None]
            index = index.reshape(len(places), *[1] * (mask.dim() - index.dim()), *index.shape[1:])
            mask = mask.gather(axis, index.expand(*mask.shape[:axis], -1, *mask.shape[mask.dim() + axis + 1 :]))
    return mask
