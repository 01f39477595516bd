"""The mean of checkpoints is a model of its own."""

import pytest
import torch

from reference_tests.translation import tiny
from scratch_transformer.translation import files
from scratch_transformer.translation.averaging import average
from scratch_transformer.translation.checkpoint import checkpoints, load_run
from scratch_transformer.translation.errors import InputError


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    tiny.run(folder, training__keep=3)
    return folder


@pytest.mark.parametrize(("last", "steps"), [(None, [2, 4, 6]), (2, [4, 6]), (1, [6])])
def test_it_is_the_mean(folder, last, steps):
    out, chosen = average(folder, last)
    assert out == folder / "averaged"
    assert [path.name for path in chosen] == [f"step-{step:08d}" for step in steps]
    saved = [files.read_tensors(path / "model.safetensors") for path in checkpoints(folder) if path in chosen]
    for name, parameter in load_run(out).model.named_parameters():
        mean = torch.stack([tensors[name].double() for tensors in saved]).mean(0)
        torch.testing.assert_close(parameter.double(), mean, rtol=1e-6, atol=1e-9)
    assert load_run(out).held_out() == load_run(folder).held_out()


def test_another_folder(folder, tmp_path):
    average(folder, 2, tmp_path / "x" / "mean")
    assert {path.name for path in (tmp_path / "x").iterdir()} == {"mean"}
    assert load_run(tmp_path / "x" / "mean").model


def test_what_is_refused(folder):
    with pytest.raises(InputError, match="has 3 checkpoints: expected at least 4"):
        average(folder, 4)
    average(folder)
    with pytest.raises(InputError, match="averaged is there already: expected a new folder"):
        average(folder)
    (folder / "checkpoints" / "step-00000006" / "model.safetensors").write_bytes(b"x")
    with pytest.raises(InputError, match="is damaged"):
        average(folder, out=folder / "other")
    assert not (folder / "other").exists()
