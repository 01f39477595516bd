"""A task that is learned in a minute: read a string of digits, write it backwards.

The strings differ in length, so that there is padding, and the order matters, so that there must be positions.
"""

from __future__ import annotations

from collections.abc import Collection
from random import Random

import torch
from torch import Tensor

DIGITS = 10
PAD, START, END = 10, 11, 12
VOCABULARY = 13

String = tuple[int, ...]


def draw(count: int, lengths: tuple[int, int], random: Random, without: Collection[String] = ()) -> list[String]:
    """`count` random strings of digits, of the shortest to the longest of `lengths`, none of them in `without`.

    Raises:
        ValueError: `lengths` are not 1 ≤ shortest ≤ longest, or `without` has all such strings.
    """
    shortest, longest = lengths
    if not 1 <= shortest <= longest:
        raise ValueError(f"lengths must be (shortest, longest) with 1 <= shortest <= longest, but are {lengths}")
    if len(set(without)) >= sum(DIGITS**n for n in range(shortest, longest + 1)):
        raise ValueError(f"without has {len(set(without))} strings: none of the {lengths=} is left")
    strings: list[String] = []
    while len(strings) < count:
        string = tuple(random.randrange(DIGITS) for _ in range(random.randint(shortest, longest)))
        if string not in without:
            strings.append(string)
    return strings


def batch(strings: list[String]) -> tuple[Tensor, Tensor]:
    """Source ids (B, S) and target ids (B, T): digits; and START, the digits backwards, END. Padded on the right."""
    return _padded([list(s) for s in strings]), _padded([[START, *reversed(s), END] for s in strings])


def exact_matches(decoded: Tensor, tgt: Tensor) -> float:
    """The share of strings of which every token is right, up to and including END; both (B, T)."""
    return ((decoded == tgt) | (tgt == PAD)).all(dim=1).double().mean().item()


def _padded(rows: list[list[int]]) -> Tensor:
    length = max(map(len, rows))
    return torch.tensor([row + [PAD] * (length - len(row)) for row in rows])
