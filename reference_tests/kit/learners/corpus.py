"""Learner-like code: styles that are right (`correct/`), and the same with a mistake put in (`mistaken/`).

A mistaken version is a row of a table: the style, the text to replace and its replacement, the component that is then
wrong, and the ids of the catalogue by which it must be named.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

CORRECT = Path(__file__).parent / "correct"
STYLES = {path.stem: path for path in sorted(CORRECT.iterdir()) if path.suffix in (".py", ".ipynb")}


@dataclass(frozen=True)
class Mistaken:
    """A style with a mistake in it.

    ids: of the catalogue, separated by spaces: all of them must be named for `component`, and no other as a mistake.
    component: the class or function that is wrong.
    changes: (text, replacement) pairs; every text occurs exactly once in the style.
    """

    ids: str
    style: str
    component: str
    changes: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        return f"{self.ids.replace(' ', '+')}-{self.style}-{self.component}"

    @property
    def file_name(self) -> str:
        return STYLES[self.style].name

    def source(self) -> str:
        """The text of the file, a notebook's included."""
        text = STYLES[self.style].read_text(encoding="utf-8")
        if self.file_name.endswith(".ipynb"):
            return _changed_notebook(text, self.changes)
        for old, new in self.changes:
            text = _replaced(text, old, new)
        return text

    def write(self, folder: Path) -> Path:
        path = folder / self.file_name
        path.write_text(self.source(), encoding="utf-8")
        return path


def mistaken(ids: str, style: str, component: str, *texts: str) -> Mistaken:
    """`texts`: old, new, old, new, …"""
    return Mistaken(ids, style, component, tuple(zip(texts[::2], texts[1::2], strict=True)))


def _replaced(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, f"{text.count(old)} times in the file, not once: {old!r}"
    assert old != new
    return text.replace(old, new)


def _changed_notebook(text: str, changes: Iterable[tuple[str, str]]) -> str:
    notebook = json.loads(text)
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    marker = "\n# ---- next cell ----\n"
    joined = marker.join("".join(cell["source"]) for cell in cells)
    for old, new in changes:
        joined = _replaced(joined, old, new)
    for cell, source in zip(cells, joined.split(marker), strict=True):
        cell["source"] = source.splitlines(keepends=True)
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
