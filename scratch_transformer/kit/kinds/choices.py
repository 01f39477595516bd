"""Designs that are a choice of each of several things: which positions, which norm; mistakes that many kinds have."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Options = Mapping[str, Mapping[str, Any]]
"""Words -> entries of a recipe."""

RUNS = ("B12", "B27", "B33", "B32")
"""Mistakes of whatever computes something."""
TRAINED = ("B10", *RUNS)
"""And of what has weights."""
BUILT = (*TRAINED, "B21", "B22", "B26", "B29")
"""And of what is told its sizes."""


class Choices(Options):
    """Every option of the first choice with every option of the others: thousands, made when asked for.

    choices: each with options that all decide the same entries of the recipe.
    """

    def __init__(self, *choices: Options) -> None:
        self.choices = choices

    @functools.cached_property
    def _all(self) -> Options:
        return functools.reduce(_both, reversed(self.choices))

    def narrowed(self, keep: Callable[[dict[str, dict[str, Any]]], Options]) -> Choices:
        """With some options of each choice. keep: those of one choice, with the others' first -> some of them."""
        found: list[Options] = []
        for options in self.choices:
            firsts = [next(iter(other.values())) for other in self.choices if other is not options]
            rest = {name: value for first in firsts for name, value in first.items()}
            some = keep({words: {**rest, **own} for words, own in options.items()})
            found.append({words: options[words] for words in some})
        return Choices(*found)

    def __getitem__(self, words: str) -> Mapping[str, Any]:
        return self._all[words]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)


def _both(others: Options, first: Options) -> Options:
    return {", ".join(filter(None, (a, b))): {**first[a], **others[b]} for b in others for a in first}


def combined(*choices: Options) -> Choices:
    """All choices of several, each of which may be such choices itself."""
    flat = (one.choices if isinstance(one, Choices) else (one,) for one in choices)
    return Choices(*(one for some in flat for one in some))
