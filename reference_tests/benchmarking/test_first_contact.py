"""The script for a GPU's first hour: its steps run here with tiny cases, and what they found is kept and summed up."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.contact import choices, lines, race, smoke, summary
from scratch_transformer.benchmarking.timing import Prepared

ROOT = Path(__file__).parents[2]


@pytest.fixture
def contact(monkeypatch, tmp_path):
    monkeypatch.setenv("CONTACT_DIR", str(tmp_path / "state"))
    return tmp_path


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script")
def test_the_script_runs_its_steps_and_keeps_what_they_found(contact):
    environment = os.environ | {"PYTHON": sys.executable, "OUT": str(contact / "out")}
    command = ["bash", "benchmarks/first_contact.sh", "--dry", "smoke", "bench", "profile", "summary"]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)
    assert run.returncode == 0, run.stderr
    assert "first launches: 1 of 1 passed" in run.stdout
    assert "step smoke: passed" in run.stdout
    assert "would run: compute-sanitizer" in run.stdout and "bench --device cuda" in run.stdout
    found = [json.loads(line) for line in (contact / "out" / "log.jsonl").read_text().splitlines()]
    assert [line["kind"] for line in found] == ["smoke", "step", "step", "step"]
    assert (contact / "out" / "summary.txt").read_text().startswith("first launches: 1 of 1 passed")


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script")
def test_an_unknown_step_is_refused(contact):
    run = subprocess.run(
        ["bash", "benchmarks/first_contact.sh", "--dry", "swim"], cwd=ROOT, capture_output=True, text=True
    )
    assert (run.returncode, run.stderr) == (2, "there is no step swim\n")


def test_every_case_is_raced_once_however_often_the_race_is_cut_off(contact, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["race", "--dry"])
    everything, cases = race.cases, race.cases(True)
    monkeypatch.setattr(race, "cases", lambda is_dry: everything(is_dry)[:1])
    race.main()
    monkeypatch.setattr(race, "cases", lambda is_dry: everything(is_dry)[:2])
    race.main()
    found = lines.read("race")
    assert [line["case"] for line in found] == [case.name for case in cases[:2]]
    assert set(found[0]["rates"]) == {"ours tiled", "ours naive", "torch flash"}
    assert all(rate > 0 for rate in found[0]["rates"].values())
    assert len(everything(False)) == 24


def test_a_case_that_breaks_down_costs_the_others_nothing(contact, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["race", "--dry", "--choices"])
    broken = choices.Choice("tiled", lambda: 1 / 0, "nothing")
    monkeypatch.setattr(choices, "DRY", {"broken": broken} | choices.DRY)
    race.main()
    assert [line["name"] for line in lines.read("choice")] == ["dry-nothing"]
    assert lines.read("failed")[0]["error"].startswith("ZeroDivisionError")


def test_an_alternative_lasts_for_one_call(contact):
    table = {"slots": 2}
    seen = []
    choice = choices.Choice("tiled", lambda: choices.replaced(table, "slots", 3), "nothing")
    prepared = choices.under(Prepared(lambda: seen.append(table["slots"])), choice)
    prepared()
    assert (seen, table) == ([3], {"slots": 2})


def test_the_summary_says_what_to_change_and_what_never_ended(contact, capsys):
    lines.write("smoke", name="triton-mask", passed=True, told="error 1e-03", seconds=2)
    lines.write("smoke", name="decode-D64", passed=False, told="wrong: relative error 1", seconds=2)
    rates = {"ours hopper": 600.0, "ours triton": 300.0, "torch cudnn": 500.0, "torch flash": 400.0}
    lines.write("race", case="attention-forward", rates=rates, errors={}, out={})
    name = next(iter(choices.CHOICES))
    for speedup in (1.0, 1.21):
        lines.write("choice", name=name, case="attention-x", speedup={"median": speedup}, rate=1)
    capsys.readouterr()
    summary.main()
    told = capsys.readouterr().out
    assert f"first launches: 1 of {len(smoke.CASES)} passed" in told
    assert "decode-D64: wrong: relative error 1" in told
    assert "hopper-D128-causal: did not end" in told
    assert "forward, ours hopper: 1.20 of the best of PyTorch's" in told
    assert f"{name}: 1.100 times as fast" in told and f"CHANGE {choices.CHOICES[name].change}" in told
