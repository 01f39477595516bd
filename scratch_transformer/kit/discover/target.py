"""What is to be checked: a file, a module, a notebook or a directory, and perhaps one name in it."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

MOST_FILES = 200
SKIPPED_FOLDERS = {"__pycache__", "node_modules", "site-packages", "build", "dist", "venv", "env", "tests", "test"}
SKIPPED_FILES = re.compile(r"^(test_.*|.*_test|setup|conftest)$")
RELATIVE = re.compile(rb"^[ \t]*from[ \t]+(\.+)", re.MULTILINE)
MAGIC = re.compile(r"^\s*(?:[%!?].*|.*\?)$")


class NotFound(Exception):
    """There is nothing to check; the message says why."""


@dataclass(frozen=True)
class Source:
    """One file of Python, or a notebook's cells as one text."""

    path: str
    text: str
    folder: str = "."
    """What must be importable from: the folder of the file, or the one that holds its package."""
    module: str = ""
    """The name under which the file would be imported from `folder`."""
    cells: tuple[tuple[int, int], ...] = field(default=(), repr=False)
    """Of a notebook: for each line of `text`, its cell and the line in the cell, both from 1."""

    def where(self, line: int | None) -> str:
        """A line for people: model.py:12, or notes.ipynb, cell 3, line 2."""
        name = Path(self.path).name
        if not line:
            return name
        if self.cells and line <= len(self.cells):
            cell, inside = self.cells[line - 1]
            return f"{name}, cell {cell}, line {inside}"
        return f"{name}:{line}"


@dataclass(frozen=True)
class Target:
    """Sources, and the one class or function that was asked for, if any."""

    sources: tuple[Source, ...]
    only: str | None = None


def find(given: str) -> Target:
    """The sources behind `given`: a path or module, with :Name behind it for one class or function.

    Raises:
        NotFound: there is no such file or module, it is no Python, or a folder has none.
    """
    path, only = _split(given)
    if path.is_dir():
        return Target(_folder(path), only)
    if path.is_file():
        return Target((_file(path),), only)
    name, _, inside = given.partition(":")
    if re.fullmatch(r"[A-Za-z_][\w.]*", name) and not name.endswith((".py", ".ipynb")):
        return Target(_module(name), inside or None)
    raise NotFound(f"{path}: no such file or folder")


def _split(given: str) -> tuple[Path, str | None]:
    """model.py:Attention -> the path and the name. A colon may also be part of a path (C:\\...)."""
    before, colon, after = given.rpartition(":")
    if colon and re.fullmatch(r"[A-Za-z_][\w.]*", after) and not Path(given).exists():
        return Path(before), after
    return Path(given), None


def _file(path: Path) -> Source:
    path = path.resolve()
    if path.suffix == ".ipynb":
        text, cells = _notebook(path)
        return Source(str(path), text, str(path.parent), _identifier(path.stem), cells)
    if path.suffix not in (".py", ".txt", ""):
        raise NotFound(f"{path.name} is neither Python (.py) nor a notebook (.ipynb)")
    text = _read(path)
    folder, parts, levels = path.parent, [_identifier(path.stem)], _levels(path.parent)
    levels = max(levels, int(_names_its_folder(text, folder)))
    while ((folder / "__init__.py").exists() or len(parts) <= levels) and folder.parent != folder:
        parts.insert(0, _identifier(folder.name))
        folder = folder.parent
    if parts[-1] == "__init__" and len(parts) > 1:
        parts.pop()
    return Source(str(path), text, str(folder), ".".join(parts))


def _names_its_folder(text: str, folder: Path) -> bool:
    """Whether model/model.py imports model.attention, which is beside it: its folder is a package then."""
    imported = re.findall(rf"^[ \t]*(?:from|import)[ \t]+{re.escape(folder.name)}\.(\w+)", text, re.MULTILINE)
    return any((folder / f"{name}.py").is_file() or (folder / name).is_dir() for name in imported)


def python_files(folder: Path) -> list[Path]:
    """By name, those that can be read; a folder may be called anything, finetuning.py too."""
    return [path for path in sorted(folder.glob("*.py")) if path.is_file() and os.access(path, os.R_OK)]


MOST_FILES, MOST_BYTES = 40, 200_000


def files_beside(path: Path) -> list[Path]:
    """The other Python files of a file's folder: no more than so many, and none that is large."""
    files = python_files(path.parent)[:MOST_FILES]
    return [file for file in files if file.resolve() != path.resolve() and file.stat().st_size <= MOST_BYTES]


def _levels(folder: Path) -> int:
    """How many folders up the relative imports of a folder's files reach: they make it a package."""
    texts = (path.read_bytes() for path in python_files(folder)[:MOST_FILES])
    return max((len(dots) for text in texts for dots in RELATIVE.findall(text)), default=0)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (UnicodeDecodeError, OSError) as error:
        raise NotFound(f"{path.name} cannot be read as text: {error}") from error


def _identifier(stem: str) -> str:
    return re.sub(r"\W", "_", stem)


def _folder(folder: Path) -> tuple[Source, ...]:
    folder = folder.resolve()
    paths = [
        path
        for path in sorted([*folder.rglob("*.py"), *folder.rglob("*.ipynb")])
        if path.is_file()
        and not SKIPPED_FOLDERS.intersection(path.relative_to(folder).parts[:-1])
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
        and not SKIPPED_FILES.match(path.stem)
    ]
    if not paths:
        raise NotFound(f"{folder.name}/ has no Python files and no notebooks")
    return tuple(_file(path) for path in paths[:MOST_FILES])


def _module(name: str) -> tuple[Source, ...]:
    """The file of an importable module, found without running anything, not even its packages' own files."""
    top, *rest = name.split(".")
    places = [Path.cwd(), *map(Path, filter(None, sys.path))]
    roots = [place for place in places if (place / f"{top}.py").is_file() or (place / top).is_dir()]
    for root in roots:
        path = root.joinpath(top, *rest)
        if path.with_suffix(".py").is_file():
            return (_file(path.with_suffix(".py")),)
        if path.is_dir():
            return _folder(path)
    raise NotFound(f"{name}: no such file, and no module of this name can be imported from here")


# ---- Notebooks ----


def _notebook(path: Path) -> tuple[str, tuple[tuple[int, int], ...]]:
    """All code cells as one text, and where each line of it comes from. Magics become comments."""
    try:
        document = json.loads(_read(path))
        cells = document["cells"] if "cells" in document else document["worksheets"][0]["cells"]
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise NotFound(f"{path.name} is not a notebook: {error}") from error
    lines: list[str] = []
    places: list[tuple[int, int]] = []
    for number, cell in enumerate(cells, 1):
        if cell.get("cell_type") != "code":
            continue
        text = cell.get("source", cell.get("input", ""))
        text = text if isinstance(text, str) else "".join(text)
        for inside, line in enumerate(_without_magics(text), 1):
            lines.append(line)
            places.append((number, inside))
    return "\n".join(lines) + "\n", tuple(places)


def _without_magics(text: str) -> list[str]:
    lines = text.splitlines()
    foreign = bool(lines) and lines[0].startswith("%%") and not re.match(r"%%(time|timeit|capture)\b", lines[0])
    found, goes_on = [], False
    for line in lines:
        is_magic = MAGIC.match(line) is not None
        found.append(f"# {line}" if foreign or goes_on else _commented(line) if is_magic else line)
        goes_on = (goes_on or is_magic) and line.endswith("\\")  # !python train.py \, and its arguments behind that
    return found


def _commented(line: str) -> str:
    """A comment; `pass` where a block may need a statement."""
    indent = line[: len(line) - len(line.lstrip())]
    return f"{indent}pass  # {line.strip()}" if indent else f"# {line}"
