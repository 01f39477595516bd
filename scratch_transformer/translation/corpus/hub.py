"""Pairs from Hugging Face's hub, or a folder in its format: every row has {"translation": {"en": ..., "it": ...}}."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

from scratch_transformer.translation.corpus.files import Found
from scratch_transformer.translation.errors import InputError


def read_hub(name: str, source: str, target: str) -> Iterator[Found]:
    """The pairs of a data set such as opus_books, from its train split; in either direction.

    name: on the hub, with or without its owner, or a local folder.

    Raises:
        InputError: it cannot be loaded, or has no such pair or another form.
    """
    for number, row in enumerate(_rows(name, source, target), start=1):
        pair = row.get("translation") if isinstance(row, dict) else None
        if not isinstance(pair, dict) or source not in pair or target not in pair:
            raise InputError(f'{name}, row {number}: expected {{"translation": {{"{source}": ..., "{target}": ...}}}}')
        empty = [name for name in (source, target) if not str(pair[name] or "").strip()]
        if not empty:
            yield str(pair[source]), str(pair[target])
        else:
            yield f"{name}, row {number}: the {empty[0]} is empty"


@lru_cache(maxsize=1)  # a corpus is read several times
def _rows(name: str, source: str, target: str) -> Any:
    import datasets

    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # or it tells of every attempt to reach the hub
    owners = [name] if "/" in name or Path(name).exists() else [name, f"Helsinki-NLP/{name}"]
    reasons, was_offline = [], datasets.config.HF_HUB_OFFLINE
    try:
        for full_name, pair in product(owners, (f"{source}-{target}", f"{target}-{source}")):
            try:
                return datasets.load_dataset(full_name, pair, split="train")
            except Exception as error:  # the library, its file systems and its network have errors of their own
                reasons.append(" ".join(str(error).split()) or type(error).__name__)
                # It took long to find out that the hub is out of reach: what follows is looked for in the cache alone.
                datasets.config.HF_HUB_OFFLINE |= isinstance(error, ConnectionError)
    finally:
        datasets.config.HF_HUB_OFFLINE = was_offline
    raise InputError(f"cannot load {name}, {source}-{target}: {reasons[0][:300]}")
