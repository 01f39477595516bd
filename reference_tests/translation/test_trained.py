"""The model that comes with the package: what its card says is so."""

import json

import pytest
import torch
from click.testing import CliRunner

from reference_tests.translation import tiny
from scratch_transformer.by_hand import equations_alone
from scratch_transformer.translation import config, translator
from scratch_transformer.translation.checkpoint import load_run, read_pairs, tensors_of
from scratch_transformer.translation.corpus import numbers
from scratch_transformer.translation.files import read_tensors
from scratch_transformer.translation.trained import FOLDER, __main__, folder_of


@pytest.fixture(scope="module")
def run():
    return load_run(FOLDER)


def test_it_is_small_and_is_the_preset(run):
    assert (FOLDER / "model.safetensors").stat().st_size <= 600_000
    assert run.config == config.preset("shipped")
    assert all(tensor.dtype == torch.float16 for tensor in read_tensors(FOLDER / "model.safetensors").values())
    assert all(parameter.dtype == torch.float32 for parameter in run.model.parameters())


def test_every_number_below_1000_is_right_and_the_card_says_so(run):
    pairs = numbers.in_words(range(1000), run.config.data)
    assert __main__.exact(run, pairs) == 1
    assert __main__.rows({"0 to 999": (1000, 1.0)}) in (FOLDER / "CARD.md").read_text(encoding="utf-8")


def test_held_out_numbers_are_right(run):
    held_out = run.held_out()
    assert len(held_out) == 1000 and not set(held_out) & set(numbers.in_words(range(50), run.config.data))
    assert __main__.exact(run, held_out[:300]) >= 0.995


def test_in_eight_bits_nearly_all_are_right(run):
    pairs = run.held_out()[:300]
    assert __main__.exact(run, pairs, translator.Search(eight_bits=True)) >= 0.98
    assert run.merged(True) is run.merged(True) is not run.merged()


def test_a_word_is_a_token(run):
    """So that maps of attention can be read."""
    source, target = run.source_tokenizer, run.target_tokenizer
    sentence = "three hundred and forty-two thousand"
    assert source.tokens(source.encode(sentence)) == ["▁three", "▁hundred", "▁and", "▁forty", "-", "two", "▁thousand"]
    assert target.tokens(target.encode("zweiundvierzig")) == ["▁", "zwei", "und", "vier", "zig"]


def test_the_one_that_was_asked_for_or_this(tmp_path):
    assert folder_of(None) == FOLDER and folder_of(tmp_path) == folder_of(str(tmp_path)) == tmp_path


@pytest.fixture
def as_shipped(tmp_path, monkeypatch):
    """What is trained takes a second, and a model of that kind is what comes with the package."""
    monkeypatch.setitem(config.PRESETS, "shipped", {**tiny.SETTINGS, "training.keep": 8, "training.steps": 16})
    monkeypatch.setattr(torch, "set_num_threads", lambda threads: None)
    monkeypatch.setattr(__main__, "FOLDER", tmp_path / "first")
    train = lambda name: CliRunner().invoke(__main__.main, [str(tmp_path / name)])  # noqa: E731
    with equations_alone():  # as the command does
        tiny.run(tmp_path / "run", **{"training.keep": 8, "training.steps": 16})
    __main__.export(tmp_path / "run", tmp_path / "first")
    return train


def test_it_can_be_made_again(as_shipped, tmp_path):
    result = as_shipped("second")
    assert result.exit_code == 0, result.output
    assert "bit by bit the model that comes with the package" in result.output
    made = load_run(tmp_path / "second")
    assert read_pairs(tmp_path / "second" / "held_out.jsonl") == made.held_out() and made.config.training.steps == 16
    saved = read_tensors(tmp_path / "second" / "model.safetensors")
    assert all(tensor.equal(saved[name].float()) for name, tensor in tensors_of(made.model).items())
    assert f"{sum(t.numel() for t in saved.values()):,} parameters" in (tmp_path / "second" / "CARD.md").read_text()


def test_other_bits_must_be_as_good(as_shipped, tmp_path, monkeypatch):
    state = json.loads((tmp_path / "first" / "config.json").read_text())
    assert state["training"]["seed"] == 0
    monkeypatch.setitem(config.PRESETS["shipped"], "training.seed", 1)
    shares = iter([{"0 to 999": (1000, 0.5)}, {"0 to 999": (1000, 0.4)}, {"0 to 999": (1000, 0.5)}])
    monkeypatch.setattr(__main__, "scores", lambda run: next(shares))
    result = as_shipped("second")
    assert result.exit_code == 1 and "is worse than the model that comes with the package: 0 to 999" in result.output
    shares = iter([{"0 to 999": (1000, 0.5)}, {"0 to 999": (1000, 0.5)}, {"0 to 999": (1000, 0.5)}])
    result = as_shipped("third")
    assert result.exit_code == 0 and "has other bits" in result.output
