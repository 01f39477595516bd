"""What goes wrong around a training: folders left behind, two writers, a full disk, processes that must agree."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from reference_tests.commands.limited import limited
from reference_tests.translation import tiny
from scratch_transformer import cli
from scratch_transformer.translation import checkpoint, files, train
from scratch_transformer.translation.errors import InputError
from scratch_transformer.translation.train import resume

ROOT = Path(__file__).parents[2]
SMALL = [argument for name, value in tiny.SETTINGS.items() for argument in ("--set", f"{name}={value}")]


def test_what_a_kill_left_is_removed_at_the_next_start(tmp_path):
    lives, ended = (f".new-run-{number}" for number in (os.getppid(), 2**31 - 1))
    for name, age in ((lives, 0), (ended, 0), (".new-run-x", 0), (".old-run-1", 1000), (".new-other-1", 1000)):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, times=(then := files.time.time() - age, then))
    tiny.run(tmp_path / "run", training__steps=1)
    assert {path.name for path in tmp_path.iterdir()} == {"run", lives, ".new-run-x", ".new-other-1"} | (
        {ended} if os.name == "nt" else set()
    )


def test_two_processes_do_not_train_in_one_folder(folder):
    before = tiny.content(folder)
    with files.locked(folder), pytest.raises(InputError, match="run: another process trains there at this moment"):
        tiny.go_on(folder, **{"training.steps": 8})
    assert tiny.content(folder) == before
    tiny.go_on(folder, **{"training.steps": 8})


def test_a_full_disk_names_the_file_and_how_to_go_on(folder, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    result = CliRunner().invoke(cli.main, ["train", "--resume", str(folder), "--steps", "8"])
    assert result.exit_code == 2
    last = result.stderr.splitlines()[-1]
    assert f"cannot write {folder}" in last and "No space left on device" in last
    assert last.endswith(f"to go on when there is room: scratch-transformer train --resume {folder}")
    assert not list(folder.rglob("*.part"))


def test_a_damaged_last_checkpoint_names_the_one_before(folder):
    last = folder / "checkpoints" / "step-00000006"
    (last / "optimizer.safetensors").write_bytes(b"")
    with pytest.raises(InputError) as caught:
        tiny.go_on(folder, **{"training.steps": 8})
    hint = "; --from-last-good goes on without it, from the checkpoint before, step-00000004"
    assert str(caught.value).endswith(hint) and str(last) in str(caught.value)


def lose(folder, file):
    """One file of the last checkpoint is damaged, or missing."""
    path = folder / "checkpoints" / "step-00000006" / file
    path.write_bytes(path.read_bytes()[:-3]) if file != "state.json" else path.unlink()


@pytest.mark.parametrize("file", ["model.safetensors", "optimizer.safetensors", "state.json"])
def test_a_damaged_last_checkpoint_is_left_aside(folder, trained, file):
    """The run ends as without the damage; what is damaged stays, under another name."""
    lose(folder, file)
    result = CliRunner().invoke(cli.main, ["train", "--resume", str(folder), "--from-last-good"])
    assert result.exit_code == 0, result.output
    assert "step-00000006 is damaged, and is damaged-step-00000006 now\n" in result.output
    assert "going on after step 4\n" in result.output
    content = {name: file for name, file in tiny.content(folder).items() if "damaged" not in name}
    assert content == tiny.content(trained)
    assert (folder / "checkpoints" / "damaged-step-00000006").is_dir()


def test_a_checkpoint_that_diverged_is_left_aside_and_so_is_a_damaged_best(folder):
    """Its checksums are right, but the weights are no numbers; and the best one is not the last."""
    first, last = checkpoint.checkpoints(folder)[0], checkpoint.checkpoints(folder)[-1]
    tensors = files.read_tensors(last / "model.safetensors")
    tensors["decoder.norm.alpha"][0] = float("nan")
    files.write_bytes(last / "model.safetensors", files.tensors_to_bytes(tensors))
    state = checkpoint.read_state(last)
    state["sha256"]["model.safetensors"] = files.digest(last / "model.safetensors")
    files.write_json(last / "state.json", state)
    shutil.copytree(first, older := first.with_name("step-00000002"), dirs_exist_ok=True)
    (older / "model.safetensors").write_bytes(b"")
    result = CliRunner().invoke(cli.main, ["train", "--resume", str(folder), "--from-last-good"])
    assert result.exit_code == 0, result.output
    for path in (last, older):
        assert f"{path.name} is damaged, and is damaged-{path.name} now\n" in result.output


def test_a_last_checkpoint_that_is_whole_is_not_said_to_be_damaged(folder):
    """It is of another model than the configuration's: to leave it aside would not help."""
    document = files.read_json(folder / "config.json")
    document["model"]["d_ff"] *= 2
    files.write_json(folder / "config.json", document)
    with pytest.raises(InputError, match="it is of another model$"):
        tiny.go_on(folder, **{"training.steps": 8})


def test_a_copy_beside_the_checkpoints_is_none_of_them(folder):
    found = checkpoint.checkpoints(folder)
    shutil.copytree(found[-1], found[-1].with_name(f"{found[-1].name}-copy"))
    assert checkpoint.checkpoints(folder) == found


def test_nothing_is_left_aside_where_nothing_is_damaged_or_all_is(folder):
    resume(folder, say=lambda line: None, from_last_good=True)
    assert not list(folder.rglob("damaged*"))
    for checkpoint_ in checkpoint.checkpoints(folder):
        (checkpoint_ / "state.json").unlink()
    before = tiny.content(folder)
    with pytest.raises(InputError, match="run: none of its 2 checkpoints is whole"):
        resume(folder, say=lambda line: None, from_last_good=True)
    assert tiny.content(folder) == before


def test_the_best_checkpoint_may_be_lost_too(tmp_path):
    """It was removed when a better one came, and that one is damaged."""
    tiny.run(tmp_path / "run", training__keep=2)
    best = checkpoint.read_state(tmp_path / "run" / "checkpoints" / "step-00000004")
    best["best_step"], best["best_score"] = 2, 0.0  # better than any that follows
    files.write_json(tmp_path / "run" / "checkpoints" / "step-00000004" / "state.json", best)
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "step-00000002", ignore_errors=True)
    lose(tmp_path / "run", "model.safetensors")
    resume(tmp_path / "run", say=lambda line: None, from_last_good=True)
    assert checkpoint.best(tmp_path / "run").name == "step-00000006"
    checkpoint.load_run(tmp_path / "run")


def test_it_is_for_a_run_that_is_resumed():
    result = CliRunner().invoke(cli.main, ["train", "--from-last-good"])
    assert result.exit_code == 2 and "--from-last-good is for --resume, which is not given" in result.stderr


# ---- Limits of the system ----


@pytest.mark.skipif(sys.platform == "win32", reason="needs setrlimit")
@pytest.mark.parametrize(
    ("kilobytes", "file"), [(4, "target_tokenizer.json"), (40, "optimizer.safetensors"), (24, "tensorboard")]
)
@pytest.mark.long
def test_a_limit_of_the_size_of_files_names_the_file(tmp_path, kilobytes, file):
    """Nobody is told to go on with a run that is not there."""
    steps = ["--steps", "900", "--set", "training.checkpoint_every=900"] if file == "tensorboard" else []
    done = limited("RLIMIT_FSIZE", kilobytes * 1024, "train", *SMALL, *steps, "--out", str(tmp_path / "x"))
    said = done.stderr.splitlines()[-1]
    assert done.returncode == 2
    assert said.startswith("Error: cannot write ") and file in said and "File too large" in said
    hint = f"; to go on when there is room: scratch-transformer train --resume {tmp_path / 'x'}"
    assert said.endswith(hint) == (tmp_path / "x").exists() == (kilobytes > 4)


@pytest.mark.skipif(sys.platform == "win32", reason="needs setrlimit")
@pytest.mark.long
def test_a_limit_of_open_files_says_how_to_go_on(tmp_path):
    out = tmp_path / "x"
    done = limited("RLIMIT_NOFILE", 16, "train", *SMALL, "--workers", "2", "--out", str(out))
    again = f"larger `ulimit -n`, or fewer --workers: scratch-transformer train --resume {out}"
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == f"Error: Too many open files; to go on with a {again}"


def test_a_vocabulary_that_is_absurdly_small_is_said(tmp_path):
    said = tiny.run(tmp_path / "run", tokens__vocab_size=8, training__steps=1)
    warnings = [line for line in said if line.startswith("Warning")]
    assert len(warnings) == 2 and "% of the source tokens are unknown: expected a larger --vocab-size" in warnings[0]


def test_settings_are_not_written_before_all_goes_well(folder):
    shutil.rmtree(folder / "tensorboard")
    (folder / "tensorboard").write_text("a file")
    before = tiny.content(folder)
    result = CliRunner().invoke(cli.main, ["train", "--resume", str(folder), "--steps", "8"])
    last = result.stderr.splitlines()[-1]
    assert (
        result.exit_code == 2 and last == f"Error: cannot write {folder / 'tensorboard'}: File exists"
    )  # room is there
    assert tiny.content(folder) == before


# ---- Several processes ----


@pytest.mark.long
def test_a_folder_that_is_there_is_one_line_of_several_processes(folder):
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29641"]
    command += ["-m", "scratch_transformer.translation.train", "--out", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 1
    ours = done.stderr.partition("torch/distributed")[0]  # then torchrun's own report
    assert ours.count(f"Error: {folder} is there already: expected a new folder") == 1
    assert "Traceback" not in ours and "scratch_transformer/translation" not in done.stderr


def test_after_a_restart_by_torchrun_the_run_goes_on(tmp_path, monkeypatch):
    settings, said = tiny.config(), []
    tiny.run(tmp_path / "whole")
    tiny.run(tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "step-00000006")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    train.train(settings, tmp_path / "run", say=said.append)
    assert "going on after step 4" in said
    assert tiny.content(tmp_path / "run") == tiny.content(tmp_path / "whole")
    with pytest.raises(InputError, match="is there already"):
        train.train(tiny.config(training__seed=3), tmp_path / "run", say=said.append)


def test_when_machines_come_or_go_the_run_of_the_same_job_goes_on(tmp_path, monkeypatch):
    """torchrun starts all processes again then, and counts no restart."""
    said = []
    tiny.run(tmp_path / "whole")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "first")
    tiny.run(tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "step-00000006")
    for other in ("second", "none"):
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", other)
        with pytest.raises(InputError, match="is there already"):
            train.train(tiny.config(), tmp_path / "run", say=said.append)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "first")
    train.train(tiny.config(), tmp_path / "run", say=said.append)
    assert "going on after step 4" in said
    (tmp_path / "run" / train.JOB).unlink()
    assert tiny.content(tmp_path / "run") == tiny.content(tmp_path / "whole")


def test_several_processes_need_a_name(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    result = CliRunner().invoke(cli.main, ["train"])
    assert result.exit_code == 2 and "--out is missing: expected a new folder" in result.stderr


def test_an_interruption_of_several_processes_says_how_to_go_on(monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(train, "train", interrupted)
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank, words in (("0", "Interrupted. To go on: torchrun --nproc-per-node 2 -m "), ("1", "")):
        monkeypatch.setenv("RANK", rank)
        result = CliRunner().invoke(cli.main, ["train", "--out", "x"])
        assert words in result.stderr and ("Interrupted" in result.stderr) == bool(words)


# ---- Threads ----


def test_threads_can_be_chosen(monkeypatch, tmp_path):
    import torch

    chosen = []
    monkeypatch.setattr(torch, "set_num_threads", chosen.append)
    result = CliRunner().invoke(
        cli.main, ["train", *SMALL, "--steps", "1", "--out", str(tmp_path / "x"), "--threads", "3"]
    )
    assert result.exit_code == 0, result.output
    assert chosen[0] == 3  # what is translated in between may take one for a while
    assert checkpoint.read_config(tmp_path / "x").training.steps == 1


def test_threads_do_not_wait_long_unless_told_to():
    """OpenMP reads it when torch is imported, so the command must say so before."""
    code = "import os, sys, scratch_transformer.commands.train; "
    code += "print(os.environ.get('GOMP_SPINCOUNT'), 'torch' in sys.modules)"
    names = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    for given, expected in (({}, "20000"), ({names[0]: "active"}, "None"), ({names[1]: "7"}, "7")):
        environment = {name: value for name, value in os.environ.items() if name not in names} | given
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, cwd=ROOT)
        assert done.stdout == f"{expected} False\n"
