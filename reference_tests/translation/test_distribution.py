"""Two processes, DDP or FSDP: the numbers of one process, and checkpoints that any number of processes continues."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint

from reference_tests.translation import tiny
from scratch_transformer.translation import distribution, files
from scratch_transformer.translation.errors import InputError
from scratch_transformer.translation.train import resume

ROOT = Path(__file__).parents[2]
LAST = "checkpoints/step-00000006"

pytestmark = pytest.mark.skipif(
    not torch.distributed.is_available() or sys.platform == "win32", reason="needs torch.distributed with gloo"
)


def numbers(folder):
    """All losses of a run, of training and validation."""
    lines = map(json.loads, (folder / "log.jsonl").read_text().splitlines())
    return [(line["step"], line.get("loss", line.get("validation_loss"))) for line in lines]


def has_fsdp_checkpoints():
    try:
        return bool(distribution._storage("Writer"))
    except InputError:
        return False


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Runs of one process, `whole` and `begun`, and those of two_processes.py."""
    folder = tmp_path_factory.mktemp("runs")
    tiny.run(folder / "whole", model__dropout=0.0)
    tiny.run(folder / "begun", model__dropout=0.0, training__steps=4)
    if has_fsdp_checkpoints():
        two_processes(folder)
        resume(folder / "fsdp-begun", say=lambda line: None, **{"training.steps": 6})
        resume(folder / "elastic", say=lambda line: None, **{"training.steps": 4})
        two_processes(folder)
    return folder


def two_processes(folder):
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*launch, "-m", "reference_tests.translation.two_processes", str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]


RUNS = {
    "ddp": "DDP", "fsdp": "FSDP", "begun": "one process, then two with FSDP",
    "fsdp-begun": "two with FSDP, then one process", "elastic": "two, one, two with DDP",
}  # fmt: skip


@pytest.mark.skipif(not has_fsdp_checkpoints(), reason="this torch cannot write FSDP's checkpoints as safetensors")
def test_losses_and_checkpoints_are_those_of_one_process(folder):
    """Of all runs in one test: they are made together, and would be again for each worker that has a case."""
    for name, how in RUNS.items():
        assert_same_losses(folder / name, folder / "whole", how)
        assert_same_checkpoint(folder / name / LAST, folder / "whole" / LAST, how)


def assert_same_losses(run, whole, how):
    (steps, losses), (expected_steps, expected) = (zip(*numbers(folder), strict=True) for folder in (run, whole))
    assert steps == expected_steps, how
    torch.testing.assert_close(
        torch.tensor(losses), torch.tensor(expected), rtol=1e-6, atol=0, msg=lambda text: f"{how}: {text}"
    )


def assert_same_checkpoint(checkpoint, whole, how):
    """In form and weights; but for the keys' biases, which the softmax doesn't see: Adam makes noise of rounding."""
    ours, expected = (files.read_tensors(folder / "model.safetensors") for folder in (checkpoint, whole))
    assert ours.keys() == expected.keys(), how
    for key in (key for key in expected if "w_k.bias" not in key):
        torch.testing.assert_close(ours[key], expected[key], rtol=0, atol=1e-4, msg=lambda text: f"{how}: {text}")
    assert {path.name for path in checkpoint.iterdir()} == {path.name for path in whole.iterdir()}, how


def test_one_process_needs_no_torchrun(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    world = distribution.start("cpu")
    assert (world.rank, world.processes, world.is_main) == (0, 1, True)
    assert world.sum(torch.tensor(3.0)) == 3
    module = torch.nn.Linear(2, 2)
    assert distribution.wrap(module, "fsdp", world) is module


def test_a_restart_does_not_find_those_that_ended(monkeypatch):
    """The store of torchrun outlives them, and has their addresses."""
    server = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    for name, value in {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(server.port), "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    for count in ("0", "1"):
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", count)
        store = distribution._store()
        assert not store.check(["address"])
        store.set("address", count)


def test_a_torch_without_the_storage_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.distributed.checkpoint.hf_storage", None)
    monkeypatch.delattr(torch.distributed.checkpoint, "hf_storage", raising=False)
    with pytest.raises(InputError, match=r"checkpoints of FSDP need torch 2\.9 or later, and this is torch"):
        distribution._storage("Reader")
