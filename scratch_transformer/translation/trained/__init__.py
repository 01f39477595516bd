"""The model that comes with the package: numbers in words, English to German.

This folder is a run like those that `scratch-transformer train` writes, with one set of weights, in float16 to be
small. `CARD.md` has its scores. It was made by, and can be made again with

    python -m scratch_transformer.translation.trained NEW_FOLDER
"""

from pathlib import Path

FOLDER = Path(__file__).parent


def folder_of(given: str | Path | None) -> Path:
    """The run that was asked for, or the one that comes with the package."""
    return FOLDER if given is None else Path(given)
