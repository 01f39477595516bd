"""The lessons run as they stand, each alone, and have all their parts. The site shows what they print."""

import re
import warnings
from pathlib import Path

import matplotlib
import pytest
import torch

from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.learn.lessons import LESSONS

PAGES = Path(__file__).parents[1] / "docs" / "lessons"
CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```[ \t]*$", re.M | re.S)
OPTIONS = re.compile(r"\A(?::[\w-]+:[^\n]*\n)+")
PARTS = (
    "Predict",
    "The equation",
    "The code",
    "Run it",
    "Check it against torch",
    "Break it",
    "Write it yourself",
)
lessons = pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)


def text_of(lesson):
    return (PAGES / f"{lesson.page}.md").read_text(encoding="utf-8")


def cells(text):
    return [OPTIONS.sub("", cell) for cell in CELL.findall(text)]


@pytest.fixture
def untouched(monkeypatch):
    """Lessons set the default dtype, seeds and filters of warnings, and draw."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    dtype = torch.get_default_dtype()
    with torch.random.fork_rng(devices=()), warnings.catch_warnings():
        yield
    torch.set_default_dtype(dtype)
    plt.close("all")


@lessons
@pytest.mark.long
def test_a_lesson_runs_alone_and_compares_something_with_torch(lesson, untouched, capsys):
    names = {"__name__": "lesson"}
    for number, cell in enumerate(cells(text_of(lesson)), 1):
        exec(compile(cell, f"{lesson.page}, cell {number}", "exec"), names)
    assert "equal, " in capsys.readouterr().out  # `compare` raises if it is not


@lessons
def test_a_lesson_has_all_its_parts_in_order(lesson):
    text = text_of(lesson)
    headings = re.findall(r"^## (.*)$", text, re.M)
    assert [part for part in PARTS for heading in headings if heading.startswith(part)] == list(PARTS), headings
    assert text.count(":::{dropdown} Answer") == 1
    assert "```{literalinclude} ../../scratch_transformer/" in text
    assert f'exercise("{lesson.name}")' in text
    assert re.search(r"^# (\d+)\.", text, re.M)[1] == str(lesson.number)


@lessons
def test_a_lesson_breaks_it_by_a_mistake_of_the_catalogue_before_and_after(lesson):
    text = text_of(lesson)
    broken = text[text.index("## Break it") : text.index("## Write it yourself")]
    used = re.findall(r'with_mistake\(\s*"\w+",\s*"(\w+)"', text)
    assert used and set(used) <= MISTAKES.keys()
    assert any(mistake in broken for mistake in used)
    assert any("hide-input" in cell for cell in re.findall(r"```\{code-cell\}.*?```", broken, re.S)), "a picture"


@lessons
def test_a_lesson_leads_to_the_next(lesson):
    if lesson is not LESSONS[-1]:
        assert f"{{doc}}`{LESSONS[lesson.number].page}`" in text_of(lesson)


def test_every_page_is_a_lesson():
    assert sorted(path.stem for path in PAGES.glob("[0-9]*.md")) == [lesson.page for lesson in LESSONS]
