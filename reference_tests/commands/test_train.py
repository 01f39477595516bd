"""`scratch-transformer train` and `average`, as their user meets them: above all, whatever is wrong with the input."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from reference_tests.translation import tiny
from scratch_transformer import cli
from scratch_transformer.translation import checkpoint

SMALL = [argument for name, value in tiny.SETTINGS.items() for argument in ("--set", f"{name}={value}")]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    tiny.run(folder)
    return folder


def run(*arguments):
    return CliRunner().invoke(cli.main, arguments)


def everything(folder):
    """What is in a folder, with the times, which a file that is written anew does not keep."""
    return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in folder.rglob("*")}


# ---- What goes well ----


def test_without_a_name_a_free_one_is_taken(tmp_path):
    (tmp_path / "run").mkdir()
    result = run("train", *SMALL, "--steps", "1", "--source", "fr", "--tokenizer", "char", "--norm", "post")
    assert result.exit_code == 0, result.output
    config = checkpoint.read_config(tmp_path / "run-2")
    assert (config.data.source, config.tokens.kind, config.model.norm) == ("fr", "char", "post")
    assert result.output.splitlines()[0] == "reading numbers below 300 in words, fr to de ..."
    assert "run-2: " in result.output.splitlines()[-1]


def test_aligned_files(tmp_path):
    for name in ("a.en", "a.de"):
        (tmp_path / name).write_text("".join(f"{name} {i}\n" for i in range(40)))
    result = run("train", *SMALL, "--source-file", "a.en", "--target-file", "a.de", "--steps", "1", "--out", "x")
    assert result.exit_code == 0, result.output
    assert "reading a.en and a.de ..." in result.output


def test_resume_and_average(trained):
    shutil.copytree(trained, "run")
    result = run("train", "--resume", "run", "--steps", "8")
    assert result.exit_code == 0, result.output
    assert "going on after step 6\n" in result.output
    result = run("average", "run", "--last", "2")
    assert result.exit_code == 0, result.output
    assert result.output == f"{os.path.join('run', 'averaged')}: the mean of step-00000006, step-00000008\n"


def test_an_interruption_says_how_to_go_on(monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("scratch_transformer.translation.train.train", interrupted)
    result = run("train", "--out", "x")
    assert result.exit_code == 1
    assert "Interrupted. To go on: scratch-transformer train --resume x\n" in result.stderr


def test_it_goes_on_where_it_was(monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("scratch_transformer.options.Device.convert", lambda self, value, param, ctx: value)
    monkeypatch.setattr("scratch_transformer.translation.train.train", interrupted)
    result = run("train", "--out", "x", "--device", "cuda")
    assert "To go on: scratch-transformer train --resume x --device cuda\n" in result.stderr


def test_a_full_standard_output_is_named(trained, monkeypatch):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("scratch_transformer.commands.average.click.echo", full)
    assert_refused(run("average", str(trained), "--out", "x"), "cannot write standard output: there is no room")


def test_the_module_for_torchrun_is_the_command(tmp_path):
    module = [sys.executable, "-m", "scratch_transformer.translation.train"]
    done = subprocess.run(
        [*module, "--out", str(tmp_path / "x"), "--steps", "many"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 2
    assert "scratch-transformer train" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("rank", "said"), [("0", ["Error: run is no run: it has no config.json"]), ("1", [])])
def test_of_torchruns_processes_the_first_one_says_what_is_wrong(tmp_path, monkeypatch, rank, said):
    (tmp_path / "run").mkdir()
    monkeypatch.setenv("LOCAL_RANK", rank)
    result = run("train", "--resume", "run")
    assert (result.exit_code, result.stderr.splitlines()) == (2, said)


def test_help_explains():
    result = run("train", "--help")
    assert result.exit_code == 0
    for words in ("--resume RUN", "--preset TEXT", "torchrun --nproc-per-node 2 -m scratch_transformer", "Exit status"):
        assert words in " ".join(result.output.split())


# ---- What cannot go well: one line, status 2, nothing written ----

FLAGS = [
    (["--preset", "huge"], "there is no preset 'huge': expected one of tiny, shipped, base, big"),
    (["--steps", "0"], "training.steps is 0: expected a whole number from 1 to 99999999"),
    (["--steps", "many"], "Invalid value for '--steps': 'many' is not a valid integer"),
    (["--tokenizer", "byte"], "tokens.kind is 'byte': expected one of bpe, word, char"),
    (["--vocab-size", "3"], "tokens.vocab_size is 3: expected a whole number from 5 to 10000000"),
    (["--norm", "layer"], "model.norm is 'layer': expected one of pre, post"),
    (["--seed", "-1"], "training.seed is -1: expected a whole number from 0"),
    (["--precision", "float8"], "training.precision is 'float8': expected one of float32, bfloat16"),
    (["--workers", "-2"], "training.workers is -2: expected a whole number from 0 to 256"),
    (["--device", "abacus"], "Invalid value for '--device': abacus"),
    (["--device", "meta"], "Invalid value for '--device': meta"),
    (["--device", "privateuseone"], "Invalid value for '--device': privateuseone"),
    (["--device", "cuda:99"], "Invalid value for '--device': cuda:99"),
    (["--source", "xx"], "data.source is 'xx', which num2words lacks"),
    (["--target", ""], "data.target is '', which num2words lacks"),
    (["--set", "model.dropout"], "--set model.dropout: expected NAME=VALUE"),
    (["--set", "model.dropout=1.5"], "model.dropout is 1.5: expected a number from 0 to below 1"),
    (["--set", "model.dropout=nan"], "model.dropout is nan: expected a number from 0 to below 1"),
    (["--set", "model.d_model=3000000"], "model.d_model is 3000000: expected a whole number from 2 to 1000000"),
    (
        ["--set", "model.d_ff=10000000", "--set", "model.d_model=999999"],
        "there is no memory for a model with model.d_m",
    ),
    (["--set", "model.dropuot=0"], "there is no setting 'model.dropuot'; is it model.dropout?"),
    (["--set", "model.num_heads=5"], "model.d_model is 12: expected a multiple of model.num_heads, 5"),
    (["--set", "model.share_embeddings=all"], "expected tokens.shared=true, one vocabulary of both languages"),
    (["--set", "data.held_out=400"], "the numbers below 300: only 300 different pairs, too few to hold out 400"),
    (["--set", "training.batch_tokens=5"], "expected at least data.max_length, 16"),
    (["--tokenizer", "char", "--set", "data.max_length=4"], "data.max_length is 4: too short, no pair is left"),
    (["--pair", "en-it"], "--pair says which languages of --hub, but there is no --hub"),
    (["--hub", "opus_books", "--pair", "enit"], "--pair enit: expected two languages, such as en-it"),
    (["--hub", "/nowhere/books", "--pair", "en-it"], "cannot load /nowhere/books, en-it"),
    (["--data", "a.tsv", "--hub", "b"], "the data are given twice, as tsv and hub: expected one of them"),
    (["--source-file", "a.en"], "data.target_file is missing"),
    (
        ["--tokenizer", "a.json", "--vocab-size", "77"],
        "--vocab-size is for a vocabulary that is learned, and a.json is",
    ),
    (["--set", "training.lr_factor=1e308"], "training.lr_factor is 1e+308: expected a number from 0 to"),
    (["--threads", "100000"], "Invalid value for '--threads': 100000 is not in the range 1<=x<=1024"),
    (["--learning-rate", "1"], "No such option"),
    (["--out", "file.txt"], "file.txt is there already: expected a new folder"),
    (["--out", "full"], "full is there already: expected a new folder, or --resume full"),
    (["--out", "file.txt/run"], "cannot create file.txt/run"),
    (["--resume", "nowhere"], "there is no folder nowhere: expected one that `scratch-transformer train` wrote"),
    (["--resume", "full"], "full is no run: it has no config.json"),
    (["--resume", "file.txt"], "there is no folder file.txt"),
]


@pytest.mark.parametrize(("arguments", "message"), FLAGS, ids=lambda value: " ".join(value) if value else None)
def test_flags_that_are_refused(tmp_path, arguments, message):
    (tmp_path / "file.txt").write_text("precious")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("precious")
    before = everything(tmp_path)
    small = [] if "--resume" in arguments else SMALL
    assert_refused(run("train", *small, *arguments), message)
    assert everything(tmp_path) == before


@pytest.mark.parametrize("content", ["{}", '{"format": "scratch_transformer.language/1"}'])
def test_a_folder_with_another_configuration_is_there_already(tmp_path, content):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.json").write_text(content)
    assert_refused(run("train", *SMALL, "--out", "other"), "other is there already: expected a new folder")


TEXTS = [
    (None, "cannot read c.tsv: No such file or directory"),
    (b"", "c.tsv: holds no pair of sentences"),
    (b"\n\n \n", "c.tsv: holds no pair of sentences: c.tsv, line 1: is empty"),
    (b"one two three\n" * 9, "c.tsv: holds no pair of sentences: c.tsv, line 1: has 1 columns"),
    (b"\xff\xfeo\0n\0e\0", "c.tsv: holds no pair of sentences: c.tsv, line 1: is not UTF-8"),
    (b"a\tb\n" * 50, "c.tsv: only 1 different pairs, too few to hold out 8"),
]


@pytest.mark.parametrize(("content", "message"), TEXTS)
def test_files_that_are_refused(tmp_path, content, message):
    if content is not None:
        (tmp_path / "c.tsv").write_bytes(content)
    before = everything(tmp_path)
    assert_refused(run("train", *SMALL, "--data", "c.tsv", "--out", "new"), message)
    assert everything(tmp_path) == before


def change(path, **values):
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


LAST = "run/checkpoints/step-00000006"
CHECKPOINTS = [
    (lambda path: (path / LAST / "model.safetensors").write_bytes(b"\x80\x04."), "model.safetensors: is damaged"),
    (lambda path: (path / LAST / "optimizer.safetensors").unlink(), "optimizer.safetensors: there is no such file"),
    (lambda path: (path / LAST / "state.json").write_text("{"), "state.json: expected JSON"),
    (lambda path: change(path / LAST / "state.json", step="six"), "state.json: step is 'six': expected a JSON int"),
    (lambda path: change(path / LAST / "state.json", step=2), "state.json: step is 2: expected that of the folder"),
    (lambda path: change(path / LAST / "state.json", step=10**30), "expected that of the folder, step-00000006"),
    (lambda path: change(path / LAST / "state.json", best_step=7), "state.json: best_step=7 and waited="),
    (
        lambda path: change(path / LAST / "state.json", waited=-1),
        "and waited=-1: expected a step up to 6, and",
    ),
    (lambda path: change(path / LAST / "state.json", epoch=7), "epoch and epoch_start: expected 0 ≤ epoch ≤ epoch_st"),
    (lambda path: change(path / LAST / "state.json", sha256=[]), "state.json: sha256 is []: expected a JSON dict"),
    (lambda path: (path / LAST / "state.json").write_bytes(b"\xff"), "state.json: expected JSON"),
    (lambda path: shutil.rmtree(path / LAST) or (path / LAST).mkdir(), "state.json: No such file"),
    (lambda path: (path / "run" / "config.json").unlink(), "run is no run: it has no config.json"),
    (lambda path: change(path / "run" / "config.json", format="other/2"), "config.json: is no configuration of this"),
    (lambda path: change(path / LAST / "state.json", data="0"), "the data are not the ones that run was trained on"),
    (lambda path: (path / "run" / "config.json").write_text("[]"), "config.json: is no configuration of this program"),
    (lambda path: change(path / "run" / "config.json", model={"d_model": 0}), "config.json: model.d_model is 0"),
    (lambda path: change(path / "run" / "config.json", model={}), "is of another model"),
    (lambda path: (path / "run" / "source_tokenizer.json").write_text("{}"), "source_tokenizer.json: is damaged"),
]


@pytest.mark.parametrize(("damage", "message"), CHECKPOINTS, ids=[message for _, message in CHECKPOINTS])
def test_checkpoints_that_are_refused(trained, tmp_path, damage, message):
    shutil.copytree(trained, tmp_path / "run")
    damage(tmp_path)
    before = everything(tmp_path)
    assert_refused(run("train", "--resume", "run", "--steps", "8"), message)
    assert everything(tmp_path) == before


@pytest.mark.parametrize(
    "option", [["--source", "fr"], ["--out", "x"], ["--seed", "1"], ["--set", "model.dropout=0"], ["--preset", "big"]]
)
def test_a_run_goes_on_as_it_began(option):
    assert_refused(run("train", "--resume", "run", *option), f"{option[0]} cannot be changed with --resume")


AVERAGES = [
    (["nowhere"], "there is no folder nowhere"),
    (["run", "--last", "0"], "Invalid value for '--last'"),
    (["run", "--last", "9"], "run has 2 checkpoints: expected at least 9"),
    (["run", "--out", "run"], "run is there already: expected a new folder"),
    (["run", "--out", "run/config.json/x"], "cannot create run/config.json/x"),
    (["run/checkpoints"], "run/checkpoints is no run: it has no config.json"),
]


@pytest.mark.parametrize(("arguments", "message"), AVERAGES)
def test_averages_that_are_refused(trained, tmp_path, arguments, message):
    shutil.copytree(trained, tmp_path / "run")
    before = everything(tmp_path)
    assert_refused(run("average", *arguments), message)
    assert everything(tmp_path) == before


def test_a_checkpoint_without_its_state_is_not_averaged(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "run")
    (tmp_path / LAST / "state.json").unlink()
    before = everything(tmp_path)
    assert_refused(run("average", "run"), "state.json: No such file or directory")
    assert everything(tmp_path) == before


def test_data_that_changed_leave_the_run_as_it_is(tmp_path):
    def write(count):
        (tmp_path / "c.tsv").write_text("no pair\n" + "".join(f"{i}\t{i}{i}\n" for i in range(count)))

    write(60)
    result = run("train", *SMALL, "--data", "c.tsv", "--out", "run", "--steps", "2")
    assert result.exit_code == 0, result.output
    write(59)
    before = everything(tmp_path)
    assert_refused(run("train", "--resume", "run", "--steps", "4"), "the data are not the ones that run was trained on")
    assert everything(tmp_path) == before


@pytest.mark.parametrize("package", ["num2words", "tokenizers", "safetensors", "tensorboard"])
def test_a_missing_package_is_named(monkeypatch, package, tmp_path):
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    monkeypatch.setattr(cli, "installer", lambda module, command: f"pip install for {module} and {command}")
    result = run("train", *SMALL, "--out", "new")
    assert result.exit_code == 2
    assert result.output.splitlines()[-1] == f"Error: {package} is not installed: pip install for {package} and train"
    assert list(tmp_path.iterdir()) == []


def assert_refused(result, message):
    """Exit status 2; one line that says why, after what had been said before; no traceback."""
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("Error: ")
    assert message in last
    assert "Traceback" not in result.output
