"""What would go wrong in silence: folders and files that look right and are not."""

import json
import shutil

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file, save_file

from reference_tests.translation import small_run, tiny
from scratch_transformer.commands.translate import translate
from scratch_transformer.translation import checkpoint, tokenizer
from scratch_transformer.translation.averaging import average
from scratch_transformer.translation.checkpoint import load_run
from scratch_transformer.translation.errors import InputError


def test_an_average_is_not_trained_on(folder):
    averaged, _ = average(folder)
    before = tiny.content(averaged)
    with pytest.raises(InputError, match=r"averaged has weights without a training, as `average` writes them"):
        tiny.go_on(averaged, **{"training.steps": 8})
    assert tiny.content(averaged) == before


def test_fewer_steps_than_were_done_are_refused(folder):
    before = tiny.content(folder)
    with pytest.raises(InputError, match=r"training.steps is 5, but .*run has done 6 already: expected at least 6"):
        tiny.go_on(folder, **{"training.steps": 5})
    assert tiny.content(folder) == before


def test_a_run_that_has_ended_says_so(folder):
    assert any("all 6 steps are done already: --steps" in line for line in tiny.go_on(folder))


def another_of_the_same_size(path):
    """The same tokens, two of which have changed places."""
    text = path.read_text(encoding="utf-8")
    document = json.loads(text)
    first, second = (token for token, i in document["model"]["vocab"].items() if i in (5, 6))
    vocab = document["model"]["vocab"]
    vocab[first], vocab[second] = vocab[second], vocab[first]
    path.write_text(json.dumps(document), encoding="utf-8")
    assert tokenizer.Tokenizer.load(path).vocab_size == len(vocab)


@pytest.mark.parametrize("name", ["source_tokenizer.json", "target_tokenizer.json"])
def test_another_vocabulary_of_the_same_size_is_noticed(folder, name):
    averaged, _ = average(folder)
    for place in (folder, averaged):
        another_of_the_same_size(place / name)
        with pytest.raises(InputError, match=f"{name}: is damaged or another file than the one that was saved"):
            load_run(place)
    with pytest.raises(InputError, match=f"{name}: is damaged or another file"):
        tiny.go_on(folder, **{"training.steps": 8})
    with pytest.raises(InputError, match=f"{name}: is damaged or another file"):
        average(folder, out=folder.parent / "other")


@pytest.mark.parametrize("name", ["source_tokenizer.json", "target_tokenizer.json"])
def test_a_vocabulary_that_is_lost_is_not_learned_again(folder, name):
    (folder / name).unlink()
    with pytest.raises(InputError, match=f"cannot read .*{name}: "):
        tiny.go_on(folder, **{"training.steps": 8})
    assert not (folder / name).exists()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused(tmp_path, value):
    broken = shutil.copytree(small_run.folder(), tmp_path / "run")
    tensors = load_file(broken / "model.safetensors")
    name = "decoder.norm.alpha"
    tensors[name][3] = value
    save_file(tensors, broken / "model.safetensors")
    for options in ([], ["--sample"], ["--beam", "2"]):
        result = CliRunner().invoke(translate, ["--model", str(broken), *options, "one"])
        assert result.exit_code == 2 and result.stdout == ""
        assert f"model.safetensors: {name} has values that are no finite numbers" in result.stderr
        assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("options", [[], ["--sample"], ["--beam", "2"]], ids=str)
def test_weights_that_are_too_large_to_compute_with_are_refused(tmp_path, options):
    broken = shutil.copytree(small_run.folder(), tmp_path / "run")
    tensors = load_file(broken / "model.safetensors")
    tensors["decoder.norm.alpha"].fill_(torch.finfo(torch.float32).max)
    tensors["projection_layer.proj.weight"].mul_(1e9)
    save_file(tensors, broken / "model.safetensors")
    result = CliRunner().invoke(translate, ["--model", str(broken), *options, "one"])
    assert result.exit_code == 2 and result.stdout == ""
    assert result.stderr.splitlines() == ["Error: the model computes no finite numbers: its weights are of no use"]


def test_a_validation_that_is_no_number_is_not_saved(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "scratch_transformer.translation.validation.losses", lambda *arguments: (float("nan"), float("nan"))
    )
    with pytest.raises(InputError, match=r"the loss of validation is nan at step 2: expected training.lr_factor"):
        tiny.run(tmp_path / "run")
    assert checkpoint.checkpoints(tmp_path / "run") == []
