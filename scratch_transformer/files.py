"""Files that are whole or not there."""

from __future__ import annotations

import os
from pathlib import Path


def write(path: str | os.PathLike[str], text: str) -> None:
    """Write a file all at once: whoever looks sees the old file or the whole new one.

    What is no file, such as /dev/stdout, is written to directly.
    """
    if _is_special(path):
        Path(path).write_text(text, encoding="utf-8")
        return
    target = _target(path)
    part = _beside(target)
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Find out before an hour of work whether `write` will succeed.

    Raises:
        OSError: it will not.
    """
    if Path(path).is_dir():
        raise IsADirectoryError(f"{path} is a folder")
    if _is_special(path):
        return
    target = _target(path)
    if target.exists():
        with target.open("a", encoding="utf-8"):  # replacing it would ask nobody
            pass
    part = _beside(target)
    part.touch(exist_ok=False)
    part.unlink()


def _is_special(path: str | os.PathLike[str]) -> bool:
    return Path(path).exists() and not Path(path).is_file()


def _target(path: str | os.PathLike[str]) -> Path:
    """The file itself where the path is a symbolic link, which stays one."""
    return Path(os.path.realpath(path))


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name}.{os.getpid()}.part")
