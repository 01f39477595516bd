"""`scratch-transformer bench`, as its user meets it."""

import json
import math

import pytest
import torch

from reference_tests.benchmarking import made_up
from scratch_transformer.benchmarking import others
from scratch_transformer.benchmarking import run as running
from scratch_transformer.benchmarking.machine import surroundings

CliRunner = pytest.importorskip("click.testing", reason="click is not installed").CliRunner
pytest.importorskip("rich", reason="rich is not installed")
pytest.importorskip("matplotlib", reason="matplotlib is not installed")
from scratch_transformer import cli  # noqa: E402  (needs click)
from scratch_transformer.benchmarking import plots  # noqa: E402


def run(*arguments):
    return CliRunner().invoke(cli.main, ["bench", *map(str, arguments)])


@pytest.fixture(autouse=True)
def a_glance(monkeypatch):
    """What other processes use is looked at for an instant, not for seconds."""
    monkeypatch.setattr(others, "LOOK", 0.01)


@pytest.fixture
def measured(monkeypatch):
    """Nothing is measured: the run is made up. Collects what was asked for."""
    asked = []

    def run(extent, device, subjects, progress, keep, begun, seconds):
        asked.append((extent, device, tuple(subjects)))
        for _ in range(running.steps(extent, device, subjects)):
            progress("a case")
        return made_up.document(extent)

    monkeypatch.setattr(running, "run", run)
    return asked


def test_a_run_is_printed_and_written(measured, tmp_path):
    result = run("--out", tmp_path / "new")
    assert result.exit_code == 0, result.output
    assert measured == [("quick", "cpu", ("attention", "variants", "layers", "training"))]
    assert "attention, float32, forward, full" in result.stdout
    assert "torch flex: unsupported in 16 cases: has no <compiler>" in result.stdout
    written = sorted(path.name.rpartition("-threads")[2] for path in (tmp_path / "new").iterdir())
    pictures = ["-memory.png", "-ratio.png", "-roofline.png", "-throughput.png"]
    assert written == [*pictures, ".html", ".json"]
    (file,) = (tmp_path / "new").glob("*.json")
    assert json.loads(file.read_text())["extent"] == "quick"
    assert str(file) in result.stdout


def test_a_run_that_ends_early_leaves_what_it_had(monkeypatch, tmp_path):
    def run_and_die(extent, device, subjects, progress, keep, begun, seconds):
        keep(made_up.document(extent))
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "run", run_and_die)
    assert run("--out", tmp_path).exit_code != 0
    (file,) = tmp_path.iterdir()
    assert json.loads(file.read_text())["rows"]


@pytest.fixture
def no_plots(monkeypatch):
    monkeypatch.setattr(plots, "all_plots", lambda document: {})


@pytest.fixture
def in_pieces(monkeypatch):
    """A run that measures half of what is left in each piece. Collects what it was given."""
    asked = []

    def run(extent, device, subjects, progress, keep, begun, seconds):
        asked.append((begun, seconds))
        document = json.loads(json.dumps(begun or made_up.document(extent)))
        document |= {"subjects": list(subjects), "left": document["left"] // 2 if begun else 2}
        document["environment"] |= surroundings(device)
        keep(document)
        return document

    monkeypatch.setattr(running, "run", run)
    return asked


@pytest.mark.long
def test_a_run_goes_on_where_it_ended(in_pieces, no_plots, tmp_path):
    """The same command again and again: 3 while cases are left, each piece kept; then the table, and no more work."""
    whole = ("--full", "--only", "layers", "--minutes", "1.5", "--resume", "--out", tmp_path)
    first = run(*whole)
    assert (first.exit_code, first.stdout) == (3, "2 cases are left: the same command with --resume goes on\n")
    (file,) = tmp_path.glob("*.json")
    before = json.loads(file.read_text())
    assert run(*whole).exit_code == 3
    assert in_pieces == [(None, 90.0), (before, 90.0)]
    (tmp_path / "notes.json").write_text("no JSON")
    last = run(*whole)
    assert last.exit_code == 0
    assert "attention, float32, forward, full" in last.stdout
    run("--full", "--resume", "--out", tmp_path)  # of other subjects: another run
    run("--full", "--only", "layers", "--out", tmp_path)  # not asked to go on
    assert in_pieces[-2:] == [(None, math.inf), (None, math.inf)]


def test_a_run_does_not_go_on_elsewhere(in_pieces, no_plots, tmp_path):
    run("--resume", "--out", tmp_path)
    (file,) = tmp_path.glob("*.json")
    document = json.loads(file.read_text())
    document["environment"]["torch"] = "2.5"
    file.write_text(json.dumps(document))
    result = run("--resume", "--out", tmp_path)
    assert result.exit_code == 2
    assert f"cannot go on with {file}: torch was 2.5, and is {torch.__version__}" in " ".join(result.output.split())
    assert len(in_pieces) == 1


def test_what_is_run_can_be_chosen(measured, no_plots, tmp_path):
    run("--full", "--only", "layers", "--out", tmp_path)
    assert measured == [("full", "cpu", ("layers",))]


def test_a_wrong_result_of_ours_is_an_exit_status(no_plots, monkeypatch, tmp_path):
    document = made_up.document()
    document["rows"][0] |= {"status": "wrong", "reason": "relative error 1e-01"}
    monkeypatch.setattr(running, "run", lambda *args: document)
    result = run("--out", tmp_path)
    assert result.exit_code == 1
    assert "ours auto wrong in attention-B1-H2-T256-D16-float32-forward: relative error 1e-01" in result.output


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--device", "nowhere"], "nowhere"),
        (["--only", "speed"], "'speed' is not one of"),
        (["--out", "{file}"], "is a file"),
        (["--out", "{file}/below"], "cannot write to"),
        (["compare", "{file}", "{file}"], "is no JSON"),
        (["compare", "{json}", "{json}"], "was not written by scratch-transformer bench"),
        (["compare", "{file}"], "AFTER"),
    ],
    ids=["device", "subject", "out is a file", "out is below a file", "no JSON", "other JSON", "one file"],
)
def test_bad_usage_is_found_out_before_anything_is_measured(measured, tmp_path, arguments, message):
    (tmp_path / "file").write_text("text")
    (tmp_path / "json").write_text("[]")
    places = {"file": tmp_path / "file", "json": tmp_path / "json"}
    result = run(*(argument.format(**places) for argument in arguments))
    assert result.exit_code == 2
    assert message in result.output
    assert not measured


def test_two_runs_are_compared(tmp_path):
    before, after = made_up.document(), made_up.document()
    for row in after["rows"]:
        if row["status"] == "timed" and row["is_ours"]:
            row["seconds"] = {name: value / 2 for name, value in row["seconds"].items()}
    after["environment"]["torch"] = "9.9"
    paths = [tmp_path / "before.json", tmp_path / "after.json"]
    for path, document in zip(paths, (before, after), strict=True):
        path.write_text(json.dumps(document))
    result = run("compare", *paths)
    assert result.exit_code == 0, result.output
    assert "ours: 2.00 times as fast, by the geometric mean of 17" in result.stdout
    assert "the builtins: 1.00 times as fast, by the geometric mean of 32" in result.stdout
    assert "→ 9.9" in result.stdout
    (line,) = [line for line in result.stdout.splitlines() if "window" in line]
    assert line.split()[-2:] == ["2.00", "faster"]


def test_runs_without_a_case_in_common_are_not_compared(tmp_path):
    document = made_up.document()
    (tmp_path / "a").write_text(json.dumps(document))
    (tmp_path / "b").write_text(json.dumps({**document, "rows": []}))
    result = run("compare", tmp_path / "a", tmp_path / "b")
    assert (result.exit_code, "no case in common" in result.output) == (2, True)
