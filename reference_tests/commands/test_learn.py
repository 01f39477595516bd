"""`scratch-transformer learn`, as its users meet it."""

from pathlib import Path

import pytest

CliRunner = pytest.importorskip("click.testing", reason="click is not installed").CliRunner
from scratch_transformer.commands.learn import learn  # noqa: E402  (needs click)
from scratch_transformer.learn.lessons import LESSONS, find  # noqa: E402

SOLUTIONS = Path(__file__).parents[1] / "learn" / "solutions"


def run(*arguments):
    return CliRunner().invoke(learn, [str(argument) for argument in arguments])


def test_it_lists_all_lessons_and_says_where_to_begin(tmp_path):
    result = run("--folder", tmp_path)
    assert result.exit_code == 0
    assert all(f"{lesson.name} " in result.output and lesson.title in result.output for lesson in LESSONS)
    assert f"0 of {len(LESSONS)} exercises are right." in result.output
    assert result.output.endswith("Next: scratch-transformer learn embeddings\n")


def test_it_writes_an_exercise_and_says_how_to_check_it(tmp_path):
    result = run("attention", "--folder", tmp_path)
    assert result.exit_code == 0
    assert (tmp_path / "lesson04.py").read_text(encoding="utf-8") == find("attention").skeleton
    assert f"scratch-transformer check {tmp_path / 'lesson04.py'}" in result.output
    assert "learn attention --hint" in result.output


def test_it_writes_into_a_folder_that_is_not_there_yet(tmp_path):
    assert run("4", "--folder", tmp_path / "mine").exit_code == 0
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["lesson04.py"]


def test_it_overwrites_nothing(tmp_path):
    (tmp_path / "lesson04.py").write_text("my work")
    result = run("attention", "--folder", tmp_path)
    assert result.exit_code == 0 and "is there already" in result.output
    assert (tmp_path / "lesson04.py").read_text() == "my work"


def test_a_folder_that_cannot_be_written_to_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    result = run("attention", "--folder", tmp_path / "file" / "below")
    assert result.exit_code != 0 and "cannot write" in result.output


def test_hints_come_one_at_a_time():
    hints = find("attention").hints
    first, third, last = run("attention", "--hint"), run("attention", "--hint", "3"), run("attention", "--hint", "4")
    assert hints[0] in first.output and hints[1] not in first.output
    assert first.output.endswith("Still stuck? scratch-transformer learn attention --hint 2\n")
    assert hints[2] in third.output
    assert hints[3] in last.output and "the last one" in last.output


@pytest.mark.parametrize("number", ["0", "5", "two"])
def test_a_hint_that_is_not_there_is_refused(number):
    result = run("attention", "--hint", number)
    assert result.exit_code == 2 and "numbered from 1 to 4" in result.output


def test_an_unknown_lesson_and_a_hint_for_none_are_refused():
    assert "there is no lesson 'zebra'" in run("zebra").output
    assert "a hint for which lesson?" in run("--hint").output


def test_progress_is_seen_by_checking_the_folder(tmp_path):
    for number in (3, 4):
        (tmp_path / f"lesson{number:02}.py").write_text((SOLUTIONS / f"lesson{number:02}.py").read_text())
    wrong = (SOLUTIONS / "lesson07.py").read_text().replace("(x - mean).square().mean(-1", "x.var(-1")
    (tmp_path / "lesson07.py").write_text(wrong)
    (tmp_path / "lesson08.py").write_text(find("feed_forward").skeleton)
    lines = {
        line.split()[1]: line for line in run("--folder", tmp_path).output.splitlines() if line[:3].strip().isdigit()
    }
    assert lines["softmax"].endswith("right") and lines["attention"].endswith("right")
    assert "not right yet" in lines["norms"] and "LN1" in lines["norms"]
    assert lines["feed_forward"].endswith("not written yet")
    assert lines["masks"].endswith("Masks: who may look at whom")
