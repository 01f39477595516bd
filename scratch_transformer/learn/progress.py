"""How far somebody has come: what `scratch-transformer check` says of the exercises in a folder."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from scratch_transformer.learn.lessons import LESSONS, Lesson

Standing = Literal["not begun", "not written yet", "right", "not right yet"]
Document = dict[str, Any]
"""What `check --json` writes, or a component of it."""
RIGHT = ("matches the builtin", "matches the paper, not the builtin", "harmless deviation")
NOT_WRITTEN = "not written yet"
"""What the skeletons raise."""


class NotChecked(Exception):
    """The check itself failed; the message is what it printed."""


@dataclass(frozen=True)
class State:
    """Of one exercise. why: in a few words what is not right; or what is worth knowing though it is."""

    standing: Standing
    why: str = ""


def progress(folder: Path) -> dict[str, State]:
    """Name of every lesson -> how its exercise in a folder stands. Their code runs in a process of its own.

    Raises:
        NotChecked: there is no report.
    """
    begun = [lesson for lesson in LESSONS if (folder / lesson.file).is_file()]
    states = {lesson.name: State("not begun") for lesson in LESSONS}
    if begun:
        report = checked([folder / lesson.file for lesson in begun])
        states |= {lesson.name: state(lesson, report) for lesson in begun}
    return states


def checked(paths: list[Path]) -> Document:
    """One report on several files, which may import each other; a folder's other files are left alone."""
    with tempfile.TemporaryDirectory(prefix="learn-") as name:
        exercises, report = Path(name) / "exercises", Path(name) / "report.json"
        exercises.mkdir()
        for path in paths:
            _link(exercises / path.name, path.resolve())
        command = [sys.executable, "-m", "scratch_transformer", "check", str(exercises), "--json", str(report)]
        # its bar of progress goes to standard error, which is left to it
        ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, encoding="utf-8", check=False)
        if not report.exists():
            raise NotChecked(ended.stdout.strip() or f"the check ended with exit status {ended.returncode}")
        document: Document = json.loads(report.read_text(encoding="utf-8"))
        return document


def _link(place: Path, file: Path) -> None:
    """A link, as what stands beside the file may be imported from it; a copy where there are no links."""
    try:
        place.symlink_to(file)
    except OSError:
        shutil.copyfile(file, place)


def state(lesson: Lesson, report: Document) -> State:
    """How an exercise stands, from a report on its file and perhaps others."""
    problems = [problem for problem in report["problems"] if problem.startswith(lesson.file)]
    own = [result for result in report["components"] if result["where"].partition(":")[0] == lesson.file]
    wrong = [_wrong(result) for result in own if result["verdict"] not in RIGHT and not _is_not_written(result)]
    if wrong or problems:
        return State("not right yet", "; ".join([*problems, *wrong]))
    written = {result["name"] for result in own if not _is_not_written(result)}
    missing = [name for name in lesson.asks if name not in written]
    if missing:
        return State("not written yet", "" if len(missing) == len(lesson.asks) else ", ".join(missing))
    known = [found for result in own for found in result["mistakes"] if found["severity"] in ("harmless", "paper")]
    return State("right", "; ".join(map(_named, known)))


def _is_not_written(result: Document) -> bool:
    return NOT_WRITTEN in f"{result['verdict']} {result['problem']}"


def _wrong(result: Document) -> str:
    found = [_named(found) for found in result["mistakes"] if found["severity"] == "mistake"]
    inherited = [f"a part has {id}" for id in result["inherited"]]
    return f"{result['name']}: {', '.join(found or inherited) or result['problem'].rstrip('.') or result['verdict']}"


def _named(found: Document) -> str:
    return f"{found['title']} ({found['id']})"
