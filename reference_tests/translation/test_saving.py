"""Killed at any moment, a run resumes and ends with the same bits."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from reference_tests.translation import tiny
from scratch_transformer.translation import checkpoint, saving
from scratch_transformer.translation.saving import State
from scratch_transformer.translation.train import resume

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.parametrize(
    ("task", "points"),
    [
        ("translation", ["9", "41"]),
        ("translation", ["3", "22", "29", "52", "58"]),
        ("language", ["3", "10", "17", "28", "38", "49", "57"]),
    ],
)
@pytest.mark.long
def test_killed_before_any_change_of_a_file(task, points, tmp_path):
    """At a sample of all changes (`killed.py` with every number takes some minutes): before the configuration, the
    vocabulary, a checkpoint's tensors and its name, and while old checkpoints are removed."""
    command = [sys.executable, "-m", "reference_tests.translation.killed", task, str(tmp_path), *points]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(f"{-signal.SIGKILL}") == len(points)
    assert done.stdout.count("equal") == len(points)


def test_a_log_that_was_cut_in_the_middle_of_a_line_is_mended(tmp_path):
    tiny.run(tmp_path / "run")
    expected = (tmp_path / "run" / "log.jsonl").read_bytes()
    saving.remove_folder(tmp_path / "run" / "checkpoints" / "step-00000006")
    (tmp_path / "run" / "log.jsonl").write_bytes(expected[:-17])
    resume(tmp_path / "run", say=lambda line: None)
    assert (tmp_path / "run" / "log.jsonl").read_bytes() == expected


def test_what_is_kept(tmp_path):
    for step in (2, 4, 6, 8):
        folder = tmp_path / "checkpoints" / checkpoint.step_name(step)
        folder.mkdir(parents=True)
        state = {"step": step, "epoch": 0, "epoch_start": 0, "best_step": 2, "best_score": 1.0, "waited": 0}
        state |= {"data": "", "sha256": {}}
        saving.write_json(folder / "state.json", {"format": saving.config.FORMAT, **state})
    (tmp_path / "checkpoints" / ".new-step-00000010").mkdir()
    (tmp_path / "checkpoints" / ".old-step-00000001-77").mkdir()
    saving.prune(tmp_path, 1)
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["step-00000002", "step-00000008"]


def test_the_best_validation_is_remembered():
    state = State()
    for step, score in ((2, -3.0), (4, -2.0), (6, -2.5), (8, -2.0)):
        state.step = step
        state.validated(score)
    assert state == State(step=8, best_step=4, best_score=-2.0, waited=2)
