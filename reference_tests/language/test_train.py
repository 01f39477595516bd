"""Whole runs: what is in the folder, what is said, what changes nothing, and how one goes on."""

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from reference_tests.language import tiny
from reference_tests.translation.test_distribution import has_fsdp_checkpoints, numbers
from reference_tests.translation.tiny import content
from scratch_transformer.language.run import is_run, load_run
from scratch_transformer.language.train import LANGUAGE_MODEL
from scratch_transformer.language.trainer import Trainer
from scratch_transformer.translation import checkpoint, distribution, files
from scratch_transformer.translation.averaging import average
from scratch_transformer.translation.distribution import World
from scratch_transformer.translation.errors import InputError

ROOT = Path(__file__).parents[2]
IDS = np.arange(100, dtype=np.int32)
LAST = "checkpoints/step-00000006"


def losses(folder):
    lines = map(json.loads, (folder / "log.jsonl").read_text().splitlines())
    return [line["loss"] for line in lines if "loss" in line]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of six steps."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    tiny.run(folder)
    return folder


def test_a_folder_has_all_that_a_run_needs(tmp_path):
    said = tiny.run(tmp_path / "run")
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {"config.json", "tokenizer.json", "held_out.jsonl", "log.jsonl", "tensorboard", "checkpoints"}
    assert said[0] == f"reading {tmp_path / 'text.txt'} ..."
    assert "tokens to train on" in said[1] and "vocabulary of 270 tokens" in said[1]
    assert any(line.startswith("step 6 of 6: validation loss ") for line in said)
    assert "held-out text has perplexity" in said[-1] and "bits a byte" in said[-1]
    run = load_run(tmp_path / "run")
    assert not run.model.training
    assert tiny.text().endswith("".join(run.held_out()))
    assert is_run(tmp_path / "run") and is_run(run.weights)
    assert not is_run(tmp_path)


def test_the_loss_falls(tmp_path):
    tiny.run(tmp_path / "run", training__steps=60, training__checkpoint_every=60, training__lr_factor=0.5)
    found = losses(tmp_path / "run")
    assert len(found) == 60
    assert sum(found[-10:]) < 0.8 * sum(found[:10])


def test_the_same_seed_gives_the_same_run_and_another_another(whole, tmp_path):
    shutil.copy(whole.parent / "text.txt", tmp_path / "text.txt")
    tiny.run(tmp_path / "again")
    ours, expected = content(tmp_path / "again"), content(whole)
    ours["config.json"] = ours["config.json"].replace(bytes(tmp_path), bytes(whole.parent))
    assert ours == expected
    tiny.run(tmp_path / "other", training__seed=1)
    assert losses(tmp_path / "other") != losses(whole)


@pytest.mark.parametrize("done", [1, 3, 5])
def test_interrupted_at_any_step_and_resumed_it_ends_the_same(whole, done):
    """Bit by bit, dropout included."""
    folder = whole.parent / f"resumed-{done}"
    tiny.run(folder, training__steps=done)
    tiny.resume(folder, **{"training.steps": 6})
    for file in ("model.safetensors", "optimizer.safetensors"):
        ours, expected = ((run / LAST / file).read_bytes() for run in (folder, whole))
        assert ours == expected, file
    assert losses(folder) == losses(whole)


def test_interrupted_between_two_epochs(tmp_path):
    """Each is cut from another place: a run that goes on must know in which it is, and how far."""
    shorter = {"data__length": 64, "training__batch_tokens": 512}
    tiny.run(tmp_path / "whole", **shorter)
    state = checkpoint.read_state(tmp_path / "whole" / LAST)
    assert 0 < state["epoch_start"] < 6, "more than one epoch, none of them of one step"
    for done in (state["epoch_start"], state["epoch_start"] + 1):
        tiny.run(tmp_path / f"run-{done}", training__steps=done, **shorter)
        tiny.resume(tmp_path / f"run-{done}", **{"training.steps": 6})
        assert losses(tmp_path / f"run-{done}") == losses(tmp_path / "whole")


@pytest.mark.parametrize("others", [{"training__accumulate": 3}, {"training__workers": 1}], ids=str)
def test_what_changes_how_and_not_what_is_computed(tmp_path, others):
    tiny.run(tmp_path / "plain", model__dropout=0.0)
    tiny.run(tmp_path / "run", model__dropout=0.0, **others)
    torch.testing.assert_close(losses(tmp_path / "run"), losses(tmp_path / "plain"), rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    "others",
    [
        {"model__family": "gpt2", "training__precision": "bfloat16", "model__num_kv_heads": None},
        {"model__family": "qwen3", "model__tie_embeddings": False, "model__max_length": 20},
        {"data__apart": True, "training__schedule": "inverse_sqrt", "model__head_dim": 4},
    ],
    ids=["GPT-2, bfloat16", "Qwen 3, own head", "documents apart"],
)
def test_every_variant_trains_and_loads(tmp_path, others):
    tiny.run(tmp_path / "run", training__steps=2, **others)
    assert all(math.isfinite(loss) for loss in losses(tmp_path / "run"))
    assert load_run(tmp_path / "run").config.training.steps == 2


def test_the_average_of_checkpoints_is_a_run(tmp_path):
    tiny.run(tmp_path / "run")
    out, chosen = average(tmp_path / "run")
    assert [path.name[-1] for path in chosen] == ["4", "6"]
    saved = [files.read_tensors(path / "model.safetensors") for path in chosen]
    run = load_run(out)
    for name, parameter in run.model.named_parameters():
        mean = torch.stack([tensors[name] for tensors in saved]).mean(0)
        torch.testing.assert_close(parameter.detach(), mean, rtol=1e-6, atol=1e-9)
    assert run.held_out() == load_run(tmp_path / "run").held_out()


def test_norms_do_not_decay(tmp_path):
    tiny.run(tmp_path / "run", training__steps=2)
    run = load_run(tmp_path / "run")
    world = distribution.World(torch.device("cpu"))
    trainer = Trainer(run.config, tmp_path / "none", run.model, IDS, IDS, 0, "", world)
    decay = {id(p): group["weight_decay"] for group in trainer.optimizer.param_groups for p in group["params"]}
    for name, parameter in run.model.named_parameters():
        assert decay[id(parameter)] == (0.0 if "norm" in name else 0.1), name


def test_a_ready_vocabulary_is_taken(whole, tmp_path):
    tiny.run(tmp_path / "run", training__steps=2, tokens__file=str(whole / "tokenizer.json"))
    assert (tmp_path / "run" / "tokenizer.json").read_bytes() == (whole / "tokenizer.json").read_bytes()


def test_a_run_goes_on_with_its_own_text_and_vocabulary(tmp_path):
    tiny.run(tmp_path / "run", training__steps=2)
    text = tmp_path / "text.txt"
    text.write_text(tiny.text() + "one line more\n", encoding="utf-8")
    with pytest.raises(InputError, match="the data are not the ones that .* was trained on so far"):
        tiny.resume(tmp_path / "run", **{"training.steps": 4})
    text.rename(tmp_path / "moved.txt")
    with pytest.raises(InputError, match="there is no such file; if it was moved, --text says where to"):
        tiny.resume(tmp_path / "run", **{"training.steps": 4})
    (tmp_path / "moved.txt").write_text(tiny.text(), encoding="utf-8")
    tiny.resume(tmp_path / "run", **{"training.steps": 4, "data.text": str(tmp_path / "moved.txt")})
    tokenizer = tmp_path / "run" / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text() + " ")
    with pytest.raises(InputError, match="tokenizer.json: is damaged or another file"):
        load_run(tmp_path / "run")


def test_a_text_that_is_too_short_leaves_no_folder(tmp_path):
    (tmp_path / "text.txt").write_text("a\nb\nc\n" * 9)
    with pytest.raises(InputError, match="tokens to train on: expected more than data.length, 64"):
        tiny.run(tmp_path / "run", data__length=64)
    assert not (tmp_path / "run").exists()


def test_a_damaged_checkpoint_is_named(tmp_path):
    tiny.run(tmp_path / "run", training__steps=2)
    weights = checkpoint.checkpoints(tmp_path / "run")[-1] / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(InputError, match="model.safetensors: is damaged"):
        load_run(tmp_path / "run")


@pytest.mark.skipif(
    not torch.distributed.is_available() or sys.platform == "win32" or not has_fsdp_checkpoints(),
    reason="needs torch.distributed with gloo, and a torch that writes FSDP's checkpoints as safetensors",
)
@pytest.mark.long
def test_two_processes_have_the_losses_and_the_weights_of_one(tmp_path):
    tiny.run(tmp_path / "whole", model__dropout=0.0)
    tiny.run(tmp_path / "begun", model__dropout=0.0, training__steps=4)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*launch, "-m", "reference_tests.language.two_processes", str(tmp_path)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    expected = files.read_tensors(tmp_path / "whole" / LAST / "model.safetensors")
    for name in ("ddp", "fsdp"):
        (steps, found), (all_steps, alone) = (zip(*numbers(tmp_path / n), strict=True) for n in (name, "whole"))
        assert steps == all_steps
        torch.testing.assert_close(torch.tensor(found), torch.tensor(alone), rtol=2e-6, atol=0)
    for name in ("ddp", "fsdp", "begun"):
        ours = files.read_tensors(tmp_path / name / LAST / "model.safetensors")
        assert ours.keys() == expected.keys()
        for key, tensor in expected.items():
            torch.testing.assert_close(ours[key], tensor, rtol=0, atol=1e-4)


def test_a_vocabulary_that_cannot_be_read_is_said_by_the_main_process_alone(tmp_path, monkeypatch):
    """The others must neither wait for it nor look for what it could not write."""
    monkeypatch.setattr(World, "sum", lambda self, values: torch.ones(()))
    monkeypatch.setattr(World, "wait", lambda self: None)
    config = tiny.config(tmp_path / "run", tokens__file="nowhere.json")
    (tmp_path / "run").mkdir()
    with pytest.raises(InputError, match="the main process has refused"):
        LANGUAGE_MODEL.prepare(config, tmp_path / "run", World(torch.device("cpu"), rank=1, processes=2), print)
