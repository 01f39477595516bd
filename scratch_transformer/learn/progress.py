"""How far somebody has come: what the kit says of the exercises in a folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from scratch_transformer.kit.finding import FINE, Report, Result
from scratch_transformer.learn.lessons import LESSONS, Lesson

Standing = Literal["not begun", "not written yet", "right", "not right yet"]
NOT_WRITTEN = "NotImplementedError: not written yet"
"""What the skeletons raise, in the words of the kit's report."""
Watch = Callable[[str, int, int], None]


@dataclass(frozen=True)
class State:
    """Of one exercise. why: in a few words what is not right; or what is worth knowing though it is."""

    standing: Standing
    why: str = ""


def progress(folder: Path, watch: Watch | None = None) -> dict[str, State]:
    """Name of every lesson -> how its exercise in a folder stands. Their code runs in a process of its own.

    watch: called with a component, its number, and of how many.
    """
    begun = [lesson for lesson in LESSONS if (folder / lesson.file).is_file()]
    states = {lesson.name: State("not begun") for lesson in LESSONS}
    if begun:
        report = checked([folder / lesson.file for lesson in begun], watch)
        states |= {lesson.name: state(lesson, report) for lesson in begun}
    return states


def checked(paths: list[Path], watch: Watch | None = None) -> Report:
    """The kit's report on several files, from one child process."""
    from scratch_transformer.kit.discover import process
    from scratch_transformer.kit.discover.target import Target, find

    sources = tuple(source for path in paths for source in find(str(path)).sources)
    return process.check(Target(sources), "exercises", progress=watch)


def state(lesson: Lesson, report: Report) -> State:
    """How an exercise stands, from a report on its file and perhaps others."""
    problems = [problem for problem in report.problems if problem.startswith(lesson.file)]
    own = [result for result in report.results if result.where.partition(":")[0] == lesson.file]
    by_name = {result.name: result for result in own}
    wrong = [_wrong(result) for result in own if result.verdict not in FINE and not _is_not_written(result)]
    if wrong or problems:
        return State("not right yet", "; ".join([*problems, *wrong]))
    missing = [name for name in lesson.asks if name not in by_name or _is_not_written(by_name[name])]
    if missing:
        return State("not written yet", "" if len(missing) == len(lesson.asks) else ", ".join(missing))
    notes = [
        f"{named.title} ({named.id})" for r in own for named in r.mistakes if named.severity in ("harmless", "paper")
    ]
    return State("right", "; ".join(notes))


def _is_not_written(result: Result) -> bool:
    return NOT_WRITTEN in result.problem


def _wrong(result: Result) -> str:
    named = [f"{found.title} ({found.id})" for found in result.mistakes if found.severity == "mistake"]
    inherited = [f"a part has {id}" for id in result.inherited]
    return f"{result.name}: {', '.join(named or inherited) or result.problem.rstrip('.') or result.verdict}"
