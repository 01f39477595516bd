"""The code of a file and of those beside it, which may train what it defines, load its weights, or move it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from scratch_transformer.kit.definitions import text_of_file
from scratch_transformer.kit.discover.target import python_files

MOST_FILES, MOST_BYTES = 40, 200_000
COMMENT = re.compile(r"^\s*#.*|(?<=\s)#\s.*", re.MULTILINE)


def codes(path: Path) -> Iterator[str]:
    """Of a file, and of those in its folder, and in that above where it is part of a package; without comments."""
    yield _code(text_of_file(path))
    folders = [path.parent, *([path.parent.parent] if (path.parent / "__init__.py").exists() else [])]
    for file in [file for folder in folders for file in python_files(folder)[:MOST_FILES]] if path.is_file() else ():
        if file != path and file.stat().st_size < MOST_BYTES:
            yield _code(file.read_text(encoding="utf-8", errors="replace"))


def _code(text: str) -> str:
    return COMMENT.sub("", text)
