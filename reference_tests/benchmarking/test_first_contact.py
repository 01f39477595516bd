"""The script for a GPU's first hour: its steps run here with tiny cases, and what they found is kept and summed up."""

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from benchmarks.contact import choices, lines, race, smoke, summary
from scratch_transformer.benchmarking.timing import Prepared

ROOT = Path(__file__).parents[2]


@pytest.fixture
def contact(monkeypatch, tmp_path):
    monkeypatch.setenv("CONTACT_DIR", str(tmp_path / "state"))
    return tmp_path


IN_A_SHELL = pytest.mark.skipif(sys.platform == "win32", reason="a shell script")
BARE = """
from importlib.machinery import PathFinder
absent = "click hypothesis jinja2 matplotlib psutil pytest_benchmark pytest_timeout rich safetensors tokenizers xdist"
class Finds:
    find = PathFinder.find_spec
    def __call__(self, name, *rest):
        return None if name in absent.split() else self.find(name, *rest)
PathFinder.find_spec = Finds()
"""


def script(contact, *arguments, **variables):
    environment = os.environ | {"PYTHON": sys.executable, "OUT": str(contact / "out")} | variables
    command = ["bash", "benchmarks/first_contact.sh", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)


@IN_A_SHELL
def test_the_script_runs_its_steps_and_keeps_what_they_found(contact):
    run = script(contact, "--dry", "smoke", "bench", "profile", "summary")
    assert run.returncode == 0, run.stderr
    assert "first launches: 1 of 1 passed" in run.stdout
    assert "step smoke: passed" in run.stdout
    assert "would run: compute-sanitizer" in run.stdout and "bench --device cuda" in run.stdout
    assert "would run: ncu --clock-control none" in run.stdout
    found = [json.loads(line) for line in (contact / "out" / "log.jsonl").read_text().splitlines()]
    assert [line["kind"] for line in found] == ["smoke", "step", "step", "step"]
    assert (contact / "out" / "summary.txt").read_text().startswith("first launches: 1 of 1 passed")


@IN_A_SHELL
@pytest.mark.long
def test_the_script_needs_torch_and_pytest_alone_and_says_what_else_is_missing(contact):
    (contact / "sitecustomize.py").write_text(BARE)
    bare = {"PYTHONPATH": str(contact), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    run = script(contact, "--dry", "smoke", "tests", "bench", "summary", **bare)
    assert run.returncode == 0, run.stderr
    assert "bench: click is not installed" in run.stdout
    assert "Traceback" not in run.stdout + run.stderr
    assert {line["name"]: line["status"] == 0 for line in lines.read("step")} == {
        "smoke": True, "tests": importlib.util.find_spec("triton") is not None, "bench": False,
    }  # fmt: skip
    assert run.stdout.rpartition("== summary")[2].startswith("\nfirst launches: 1 of 1 passed")


@IN_A_SHELL
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.long
def test_without_a_gpu_or_triton_that_is_said_in_a_line(contact):
    run = script(contact, "smoke", "summary")
    assert (run.returncode, run.stderr) == (1, "")
    assert run.stdout.startswith(("there is no GPU: torch ", "the kernels: triton is not installed"))
    assert run.stdout.count("\n") == 1


@IN_A_SHELL
def test_an_unknown_step_is_refused(contact):
    run = script(contact, "--dry", "smoke", "swim")
    assert (run.returncode, run.stdout, run.stderr) == (2, "", "there is no step swim\n")


CASES = """
import os, signal, sys, time
from benchmarks.contact import lines
if "--list" in sys.argv:
    print("hangs\\ncrashes\\nbreaks\\npasses")
elif "hangs" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    lines.note("begun", process=os.getpid())
    time.sleep(600)
elif "crashes" in sys.argv:
    os.kill(os.getpid(), signal.SIGSEGV)
elif "breaks" in sys.argv:
    raise ImportError("no such thing")
else:
    lines.write("smoke", name="passes", passed=True)
"""


def each(contact, *options):
    (contact / "cases.py").write_text(CASES)
    command = [sys.executable, "-m", "benchmarks.contact.each", *options, "cases", "--dry"]
    environment = os.environ | {"PYTHONPATH": f"{contact}{os.pathsep}{ROOT}"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


@IN_A_SHELL
@pytest.mark.long
def test_a_case_that_hangs_or_crashes_costs_the_others_nothing_and_is_told(contact):
    run = each(contact, "--limit", "20", "--processes", "2")
    assert run.returncode == 1, run.stderr
    assert {line["name"]: line["error"] for line in lines.read("failed")} == {
        "hangs": "did not end within 20 s",
        "crashes": "ended with signal 11: nothing was said",
        "breaks": "ended with status 1: Traceback (most recent call last): … ImportError: no such thing",
    }
    assert [line["name"] for line in lines.read("smoke")] == ["passes"]


@IN_A_SHELL
def test_what_is_at_work_when_the_step_is_over_is_cut_off_and_has_not_failed(contact):
    start = time.monotonic()
    assert each(contact, "--limit", "250", "--seconds", "5").returncode == 1
    assert time.monotonic() - start < 200
    assert not lines.read("failed")
    for line in lines.read("begun"):
        with pytest.raises(ProcessLookupError):
            os.kill(line["process"], 0)


@pytest.mark.long
def test_tests_are_noted_as_they_end_and_not_run_again_once_they_have_passed(contact, capsys):
    (contact / "test_three.py").write_text(
        "import pytest\ndef test_a(): pass\ndef test_b(): raise ValueError('no\\nway')\ndef test_c(): pytest.skip('x')"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "benchmarks.contact.kept", "-c", os.devnull, "test_three.py"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    for processes in (["-n", "2"], []):
        subprocess.run([*command, *processes], cwd=contact, env=environment, capture_output=True, timeout=300)
    found = [(line["name"].partition("::")[2], line["outcome"], line["told"]) for line in lines.read("test")]
    failed = ("test_b", "failed", "ValueError: no … way")
    assert sorted(found[:3]) == [("test_a", "passed", ""), failed, ("test_c", "skipped", "")]
    assert found[3:] == [failed]
    summary.main()
    told = capsys.readouterr().out
    assert "tests: 1 failed, 1 passed, 1 skipped" in told and "test_b: ValueError: no … way" in told


def test_kernels_that_hang_are_not_launched_again_by_the_race(contact, monkeypatch):
    assert smoke.stuck("hopper") is None
    assert "two-walks" in race.choices_left(False)
    lines.write("failed", name="hopper-D64-full", error="did not end within 60 s")
    assert smoke.stuck("hopper", 64) == "hopper-D64-full did not end within 60 s"
    assert smoke.stuck("hopper", 128) is None and smoke.stuck("triton", 64) is None
    left = race.choices_left(False).keys()
    assert not left & {"two-walks", "no-turns-64"}
    assert {"no-turns-128", "portable-forward-64-two-stages"} <= left
    lines.write("smoke", name="hopper-D64-full", passed=True, told="", seconds=1)
    assert smoke.stuck("hopper") is None
    monkeypatch.setattr(smoke, "stuck", lambda algorithm, width: "it hangs" if algorithm == "tiled" else None)
    race.run_case(race.cases(True)[0], "cpu", race.EFFORT[True], race.DRY_RIVALS)
    (line,) = lines.read("race")
    assert line["out"] == {"ours tiled": "left out: it hangs"} and "ours naive" in line["rates"]


def test_every_case_is_raced_once_however_often_the_race_is_cut_off(contact, monkeypatch, capsys):
    names = [case.name for case in race.cases(True)]
    assert list(race.cases_left(True)) == names and len(race.cases_left(False)) == 24
    monkeypatch.setattr(sys, "argv", ["race", "--dry", names[1]])
    race.main()
    assert list(race.cases_left(True)) == [names[0], *names[2:]]
    (line,) = lines.read("race")
    assert line["case"] == names[1]
    assert set(line["rates"]) == {"ours tiled", "ours naive", "torch flash"}
    assert all(rate > 0 for rate in line["rates"].values())
    capsys.readouterr()
    monkeypatch.setattr(sys, "argv", ["race", "--dry", "--list"])
    race.main()
    assert capsys.readouterr().out.splitlines() == [names[0], *names[2:]]


def test_a_case_that_breaks_down_costs_the_others_nothing(contact, monkeypatch):
    broken = choices.Choice("tiled", lambda: 1 / 0, "nothing")
    monkeypatch.setattr(choices, "DRY", {"broken": broken} | choices.DRY)
    for name in race.choices_left(True):
        monkeypatch.setattr(sys, "argv", ["race", "--dry", "--choices", name])
        race.main()
    assert [line["name"] for line in lines.read("choice")] == ["dry-nothing"]
    assert lines.read("failed")[0]["error"].startswith("ZeroDivisionError")
    assert list(race.choices_left(True)) == ["broken"]


def test_a_line_that_was_cut_off_costs_the_others_nothing(contact):
    lines.write("smoke", name="decode-D64")
    with (lines.folder() / "log.jsonl").open("a") as log:
        log.write('{"kind": "smo\n')
    lines.write("smoke", name="decode-D128")
    assert [line["name"] for line in lines.read("smoke")] == ["decode-D64", "decode-D128"]


def test_an_alternative_lasts_for_one_call(contact):
    table = {"slots": 2}
    seen = []
    choice = choices.Choice("tiled", lambda: choices.replaced(table, "slots", 3), "nothing")
    prepared = choices.under(Prepared(lambda: seen.append(table["slots"])), choice)
    prepared()
    assert (seen, table) == ([3], {"slots": 2})


def test_the_summary_says_what_to_change_and_what_never_ended(contact, capsys):
    versions = {"python": "3.12", "torch": "2.11", "triton": "3.6"}
    lines.write("machine", **versions, gpu="H100", processors=132, memory=80 * 2**30)
    lines.write("smoke", name="triton-mask", passed=True, told="error 1e-03", seconds=2)
    lines.write("smoke", name="decode-D64", passed=False, told="wrong: relative error 1", seconds=2)
    lines.write("failed", name="hopper-D128-full", error="did not end within 60 s")
    lines.write("failed", name="attention-forward", error="OutOfMemoryError: at first")
    lines.write("failed", name="attention-backward", error="AcceleratorError: illegal")
    rates = {"ours hopper": 600.0, "ours triton": 300.0, "torch cudnn": 500.0, "torch flash": 400.0}
    lines.write("race", case="attention-forward", rates=rates, errors={}, out={})
    name = next(iter(choices.CHOICES))
    for speedup in (1.0, 1.21):
        lines.write("choice", name=name, case="attention-x", speedup={"median": speedup}, rate=1)
    capsys.readouterr()
    summary.main()
    told = capsys.readouterr().out
    assert told.startswith("H100, 132 processors, 80 GiB; python 3.12, torch 2.11, triton 3.6\n")
    assert f"first launches: 1 of {len(smoke.CASES)} passed" in told
    assert "decode-D64: wrong: relative error 1" in told
    assert "hopper-D128-full: did not end within 60 s" in told
    assert "hopper-D128-causal: not run yet" in told
    assert "failed: attention-backward: AcceleratorError: illegal" in told and "at first" not in told
    assert "forward, ours hopper: 1.20 of the best of PyTorch's" in told
    assert f"{name}: 1.100 times as fast" in told and f"CHANGE {choices.CHOICES[name].change}" in told


def test_a_compiler_that_breaks_down_is_told_in_a_line(contact, monkeypatch):
    def compile_it(*_):
        raise RuntimeError("at 7:4:\n    x = tl.dot(a, b)\n\nshapes do not fit")

    algorithm, case, fixed = smoke.DRY["dry-tiled"]
    monkeypatch.setattr(type(case), "prepare", compile_it)
    assert smoke._check(algorithm, case, fixed, "cpu") == (False, "RuntimeError: at 7:4: … shapes do not fit")
