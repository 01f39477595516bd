"""`scratch-transformer learn`: the lessons' exercises, hints, and how far one has come."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from scratch_transformer.learn.lessons import Lesson

COLOURS = {"right": "green", "not right yet": "red", "not written yet": "yellow"}


@click.command()
@click.argument("lesson", required=False)
@click.option("--hint", metavar="[NUMBER]", is_flag=False, flag_value="1", help="Give a hint: the first, or another.")
@click.option("--folder", type=click.Path(file_okay=False), default=".", help="Where the exercises are: here.")
def learn(lesson: str | None, hint: str | None, folder: str) -> None:
    """Learn the Transformer by writing it: lessons, exercises and hints.

    Without LESSON, lists all lessons, and how the exercises in this folder stand. With LESSON, such as attention or 4,
    writes its exercise into this folder. `scratch-transformer check` judges what you make of it.
    """
    from scratch_transformer.learn.lessons import find

    if lesson is None:
        if hint is not None:
            raise click.UsageError("a hint for which lesson? scratch-transformer learn attention --hint")
        _list(Path(folder))
        return
    try:
        found = find(lesson)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if hint is None:
        _hand_out(found, Path(folder))
    else:
        _hint(found, hint)


def _hand_out(lesson: Lesson, folder: Path) -> None:
    """Writes the exercise, unless there is one."""
    path = folder / lesson.file
    if path.exists():
        click.echo(f"{path} is there already, and stays as it is. (Delete it to begin anew.)")
    else:
        from scratch_transformer import files

        try:
            folder.mkdir(parents=True, exist_ok=True)
            files.write(path, lesson.skeleton)
        except OSError as error:
            raise click.ClickException(f"cannot write {path}: {error.strerror or error}") from error
        click.echo(f"Lesson {lesson.number}: {lesson.title}\n\nWrote {path}. To be written: {', '.join(lesson.asks)}.")
    click.echo(f"\n  read    docs/lessons/{lesson.page}.md, or the page of this name in the documentation")
    click.echo(f"  check   scratch-transformer check {path}")
    click.echo(f"  stuck?  scratch-transformer learn {lesson.name} --hint")
    click.echo("  next    scratch-transformer learn    (all lessons, and which exercises are right)")


def _hint(lesson: Lesson, given: str) -> None:
    """One hint, and how to get the next."""
    last = len(lesson.hints)
    if not given.isdecimal() or not 1 <= int(given) <= last:
        raise click.UsageError(f"the hints of {lesson.name} are numbered from 1 to {last}, but --hint is {given!r}")
    number = int(given)
    click.echo(f"Hint {number} of {last}: {lesson.hints[number - 1]}")
    if number < last:
        click.echo(f"\nStill stuck? scratch-transformer learn {lesson.name} --hint {number + 1}")
    else:
        click.echo(f"\nThat was the last one. The lesson shows the code itself: docs/lessons/{lesson.page}.md")


def _list(folder: Path) -> None:
    from scratch_transformer.learn.lessons import LESSONS
    from scratch_transformer.learn.progress import NotChecked, progress

    try:
        states = progress(folder)
    except NotChecked as error:
        raise click.ClickException(str(error)) from error
    for lesson in LESSONS:
        state = states[lesson.name]
        words = f"{state.standing}{': ' if state.why else ''}{state.why}"
        standing = "" if state.standing == "not begun" else click.style(words, fg=COLOURS[state.standing])
        click.echo(f"{lesson.number:3}  {lesson.name:13} {lesson.title:44} {standing}".rstrip())
    right = sum(state.standing == "right" for state in states.values())
    click.echo(f"\n{right} of {len(LESSONS)} exercises are right.")
    ahead = [lesson for lesson in LESSONS if states[lesson.name].standing != "right"]
    if ahead:
        click.echo(f"Next: {ahead[0].begin if states[ahead[0].name].standing == 'not begun' else ahead[0].check}")
