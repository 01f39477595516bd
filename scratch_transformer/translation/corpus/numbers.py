"""Numbers in words, in two languages: a corpus that needs no file.

German says "fünfundvierzig", five-and-forty, for forty-five, so that attention has something to reorder.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from random import Random

from scratch_transformer.translation.config import Data
from scratch_transformer.translation.errors import InputError

PAIRS = 20_000
"""Numbers to train on, unless told otherwise."""

SMALL = 1000
"""Numbers below are all trained on: nobody would believe in a model that knows 345,678 and not 42."""

BY_LENGTH = 0.2
"""Share of the rest that is as likely to have three digits as six."""

ROUND = 0.2
"""Share of the rest with zeros in a row, at the end or within: few have, and they are the first that people try."""

TIMES = {1: 500, 10: 50, SMALL: 3}
"""How often the numbers below come: "zero" is in no other number, and short sentences share few batches."""


def draw(below: int, pairs: int, kept: int, random: Random) -> list[int]:
    """Numbers from 0 to below - 1: first `kept`, equally likely, then at most `pairs` to train on.

    Each comes once, but for the small ones to train on, where there is room for `TIMES`.
    """
    numbers = dict.fromkeys(random.sample(range(below), min(kept, below)))
    again = [n for n in range(SMALL) if n not in numbers for _ in range(_times(n) - 1)]
    if min(below, pairs) < SMALL + len(again):
        again = []
    most = min(len(numbers) + pairs - len(again), below)
    small = range(min(SMALL, below, pairs))
    numbers.update(dict.fromkeys(small))
    powers = [10**digits for digits in range(3, len(str(below)) + 1)]
    while len(numbers) < most:
        limit = min(random.choice(powers), below) if powers and random.random() < BY_LENGTH else below
        number = random.randrange(limit)
        if random.random() < ROUND:
            low, high = sorted(random.sample(range(len(str(below))), 2))
            number -= number % 10**high - number % 10**low
        numbers[number] = None
    return list(numbers)[:most] + again


def _times(number: int) -> int:
    """How often a small number comes."""
    return next(times for below, times in TIMES.items() if number < below)


def in_words(numbers: Iterable[int], data: Data) -> list[tuple[str, str]]:
    """The numbers in words of data.source and data.target.

    Raises:
        InputError: num2words lacks one of the languages, or has no words for such a number.
    """
    import num2words

    for name, language in (("source", data.source), ("target", data.target)):
        if language not in num2words.CONVERTER_CLASSES:
            close = difflib.get_close_matches(language, num2words.CONVERTER_CLASSES, n=1)
            known = ", ".join(sorted(num2words.CONVERTER_CLASSES))
            hint = f"; is it {close[0]}?" if close else ""
            raise InputError(f"data.{name} is {language!r}, which num2words lacks{hint} (it has {known})")
    return [(_words(number, data.source), _words(number, data.target)) for number in numbers]


def _words(number: int, language: str) -> str:
    import num2words

    try:
        words: str = num2words.num2words(number, lang=language)
    except Exception as error:  # its languages raise whatever they like
        raise InputError(f"num2words has no words for {number} in {language!r}: {error!r}") from None
    return words
