"""Lines in, translations out, as they come: a line that cannot be translated costs that line and no other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import torch

from scratch_transformer.translation.checkpoint import Run
from scratch_transformer.translation.decoding import Hypothesis
from scratch_transformer.translation.errors import InputError
from scratch_transformer.translation.translator import Search, encode, translate, unknown_words


def translations(
    run: Run, lines: Iterable[bytes], search: Search, batch_size: int, warn: Callable[[str], object]
) -> Iterator[list[list[Hypothesis]]]:
    """The translations of `batch_size` lines after the other; of a line that cannot be translated, an empty list.

    lines: in UTF-8, with or without their ends. warn: is told which lines have no translation, and of unknown words.
    """
    generator = torch.Generator().manual_seed(search.seed)
    numbered = enumerate(lines, start=1)
    while batch := list(islice(numbered, batch_size)):
        sources = [_source(run, line, f"line {number}", warn) for number, line in batch]
        found = iter(translate(run, [ids for ids in sources if ids], search, generator=generator))
        yield [next(found) if ids else [] for ids in sources]


def _source(run: Run, line: bytes, name: str, warn: Callable[[str], object]) -> list[int]:
    """The ids of a line, or none."""
    try:
        return encode_or_warn(run, line.decode(errors="surrogateescape").rstrip("\r\n"), name, warn)
    except InputError as error:
        warn(str(error))
    return []


def encode_or_warn(run: Run, text: str, name: str, warn: Callable[[str], object]) -> list[int]:
    """The ids of a sentence; of words that the model has never seen there is a warning, and they stay unknown.

    Raises:
        InputError: nothing of it can be translated.
    """
    ids = encode(run, text, name)
    if run.source_tokenizer.unk_id in ids:
        words = ", ".join(map(repr, unknown_words(run, text)))
        warn(f"{name}: the model does not know all of {words}")
    return ids
