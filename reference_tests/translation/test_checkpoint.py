"""A trained run loaded, and folders that are none, or damaged."""

import json
import shutil

import pytest
import torch

from reference_tests.translation import tiny
from scratch_transformer.translation import checkpoint, files
from scratch_transformer.translation.checkpoint import load_run
from scratch_transformer.translation.errors import InputError
from scratch_transformer.translation.train import resume


def test_the_best_checkpoint_is_loaded(trained):
    run = load_run(trained)
    state = checkpoint.read_state(trained / "checkpoints" / "step-00000006")
    assert run.weights.name == checkpoint.step_name(state["best_step"])
    saved = files.read_tensors(run.weights / "model.safetensors")
    assert all(torch.equal(saved[name], parameter) for name, parameter in run.model.named_parameters())
    assert len(run.held_out()) == 8
    assert not run.model.training
    assert run.config == tiny.config()


def test_one_checkpoint_can_be_named(trained):
    one = load_run(trained / "checkpoints" / "step-00000004")
    assert (one.weights.name, one.folder) == ("step-00000004", trained)


def damage(path, how):
    content = path.read_bytes()
    if how == "missing":
        path.unlink()
    elif how == "truncated":
        path.write_bytes(content[:-100])
    elif how == "flipped":
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    elif how == "empty":
        path.write_bytes(b"")
    else:
        path.write_bytes(b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00}\x94\x8c\x01a\x94K\x01s.")  # a pickle


LAST = "checkpoints/step-00000006"
DAMAGES = [
    *[(f"{LAST}/model.safetensors", how) for how in ("missing", "truncated", "flipped", "pickle")],
    *[(f"{LAST}/optimizer.safetensors", how) for how in ("missing", "truncated", "flipped", "pickle")],
    *[(f"{LAST}/state.json", how) for how in ("missing", "truncated", "empty", "pickle")],
    *[("config.json", how) for how in ("missing", "truncated", "pickle")],
    *[("source_tokenizer.json", how) for how in ("truncated", "empty", "pickle")],
]


@pytest.mark.parametrize(("name", "how"), DAMAGES)
def test_a_damaged_run_is_not_resumed(folder, name, how):
    damage(folder / name, how)
    before = tiny.content(folder)
    with pytest.raises(InputError) as caught:
        resume(folder, say=lambda line: None, **{"training.steps": 8})
    assert name.rpartition("/")[2] in str(caught.value)
    assert "\n" not in str(caught.value)
    assert tiny.content(folder) == before


@pytest.mark.parametrize(
    ("name", "how"),
    [(name, how) for name, how in DAMAGES if "optimizer" not in name] + [("target_tokenizer.json", "missing")],
)
def test_a_damaged_run_is_not_loaded(folder, name, how):
    best = checkpoint.best(folder).name
    damage(folder / name.replace("step-00000006", best if "model" in name else "step-00000006"), how)
    with pytest.raises(InputError) as caught:
        load_run(folder)
    assert name.rpartition("/")[2] in str(caught.value)
    assert "\n" not in str(caught.value)


def test_weights_of_another_model_are_refused(folder):
    best = checkpoint.best(folder)
    shutil.copy(best / "model.safetensors", folder)  # as in a folder of averages: without a checksum
    document = json.loads((folder / "config.json").read_text())
    for setting, value, message in (
        ("num_layers", 2, "lacks decoder.layers.1"),
        ("d_ff", 11, r"has shape \(10, 12\), not \(11, 12\): it is of another model"),
        ("positions", "learned", "lacks src_pos.pe"),
    ):
        document["model"][setting], before = value, document["model"][setting]
        (folder / "config.json").write_text(json.dumps(document))
        with pytest.raises(InputError, match=message):
            load_run(folder)
        document["model"][setting] = before


@pytest.mark.parametrize(
    ("key", "value"), [("step", "6"), ("best_step", None), ("best_score", "low"), ("sha256", []), ("format", "other")]
)
def test_a_state_of_another_kind(folder, key, value):
    path = folder / LAST / "state.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(InputError, match=rf"state\.json: .*{key}"):
        load_run(folder)


def test_held_out_pairs_of_another_form(folder):
    (folder / "held_out.jsonl").write_text('["a", "b"]\n["a"]\n')
    with pytest.raises(InputError, match=r'held_out\.jsonl, line 2: expected \["source", "target"\]'):
        load_run(folder).held_out()


def test_a_run_without_a_checkpoint(folder):
    shutil.rmtree(folder / "checkpoints")
    with pytest.raises(InputError, match="run has no checkpoint yet"):
        load_run(folder)


def test_no_run_at_all(tmp_path):
    with pytest.raises(InputError, match="there is no folder .*nowhere"):
        load_run(tmp_path / "nowhere")
    with pytest.raises(InputError, match="is no run: it has no config.json"):
        load_run(tmp_path)
