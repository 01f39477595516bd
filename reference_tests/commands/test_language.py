"""`scratch-transformer train --task language-model`, `average` and `evaluate`, as their user meets them."""

import json
import math
import shutil
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from reference_tests.language import tiny
from reference_tests.translation import tiny as translation
from scratch_transformer import cli
from scratch_transformer.language import config
from scratch_transformer.language.run import build_model, load_run, read_config
from scratch_transformer.translation import checkpoint

SMALL = [argument for name, value in tiny.SETTINGS.items() for argument in ("--set", f"{name}={value}")]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text(tiny.text(), encoding="utf-8")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    tiny.run(folder)
    return folder


def run(*arguments):
    return CliRunner().invoke(cli.main, arguments)


def test_a_text_is_enough_to_say_what_to_learn(tmp_path):
    result = run(
        "train",
        *SMALL,
        "--text",
        "text.txt",
        "--steps",
        "2",
        "--length",
        "9",
        "--family",
        "qwen3",
        "--tokenizer",
        "bpe",
    )
    assert result.exit_code == 0, result.output
    config = read_config(tmp_path / "run")
    assert (config.data.text, config.data.length, config.model.family) == ("text.txt", 9, "qwen3")
    assert "run: held-out text has perplexity " in result.output.splitlines()[-1]


def test_without_a_text_pythons_help_is_learned(tmp_path):
    result = run("train", "--task", "language-model", *SMALL, "--steps", "1", "--out", "x")
    assert result.exit_code == 0, result.output
    assert "reading the chapters of Python's help ..." in result.output
    assert load_run(tmp_path / "x").config.data.text is None


def test_a_run_goes_on_as_what_it_began(trained):
    result = run("train", "--resume", str(trained), "--steps", "8")
    assert result.exit_code == 0, result.output
    assert "going on after step 6" in result.output
    assert "step 8 of 8: validation loss" in result.output


def test_the_average_can_be_evaluated(trained, tmp_path):
    assert run("average", str(trained), "--out", "mean").exit_code == 0
    result = run("evaluate", "--model", "mean")
    assert result.exit_code == 0, result.output
    assert "held-out text, each token from at least 4 before it, mean" in result.output


def test_training_goes_on_from_another_run_with_another_text(trained, tmp_path):
    (tmp_path / "own.txt").write_text("".join(f"{i} is more than {i - 1}\n" for i in range(400)))
    options = ("--from", str(trained), "--text", "own.txt", "--steps", "4", "--set", "training.lr_factor=0")
    result = run("train", *options, "--out", "tuned")
    assert result.exit_code == 0, result.output
    assert f"starting with the weights of {checkpoint.best(trained)}\n" in result.output
    tuned, start = load_run("tuned"), load_run(trained)
    assert all(map(torch.equal, tuned.model.parameters(), start.model.parameters()))  # nothing was learned, at rate 0
    assert Path("tuned", "tokenizer.json").read_bytes() == (trained / "tokenizer.json").read_bytes()
    assert (tuned.config.data.text, tuned.config.data.length) == ("own.txt", tiny.SETTINGS["data.length"])

    shutil.rmtree("tuned/checkpoints")  # as if it was killed before the first
    tiny.resume(Path("tuned"))
    assert all(map(torch.equal, load_run("tuned").model.parameters(), start.model.parameters()))


@pytest.mark.parametrize("name", config.PRESETS)
def test_presets_make_sense(name):
    """GPT-2's has the parameters of the smallest one published."""
    settings = config.preset(name)
    with torch.device("meta"):
        count = sum(p.numel() for p in build_model(settings, settings.tokens.vocab_size).parameters())
    assert (count == 124_439_808) == (name == "gpt2")
    assert settings.training.batch_tokens % (settings.data.length * settings.training.accumulate) == 0


def test_evaluate_has_perplexity_and_bits_a_byte(trained):
    result = run("evaluate", "--model", str(trained), "--text", "text.txt", "--stride", "1", "--json", "scores.json")
    assert result.exit_code == 0, result.output
    document = json.loads(Path("scores.json").read_text(encoding="utf-8"))
    scores = document["scores"]
    assert scores["perplexity"] == pytest.approx(math.exp(scores["loss"]))
    assert document["bytes"] == len(tiny.text().encode())
    bits = scores["loss"] / math.log(2) * document["tokens"] / document["bytes"]
    assert scores["bits_per_byte"] == pytest.approx(bits)
    assert document["context"] == 7
    assert f"perplexity      {scores['perplexity']:9.4f}" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "--text", "text.txt", "--norm", "pre"], "--norm is no setting of --task language-model"),
        (["train", "--text", "text.txt", "--preset", "base"], "there is no preset 'base' of a language model"),
        (["train", "--from", "RUN", "--preset", "gpt2"], "--preset cannot be changed with --from"),
        (["train", "--from", "RUN", "--family", "gpt2"], "model.family cannot be changed with --from"),
        (["train", "--from", "RUN", "--task", "translation"], "--task cannot be changed with --from"),
        (["train", "--from", "RUN", "--length", "9"], "model.max_length is 8: expected at least data.length, 9"),
        (["train", "--task", "translation", "--text", "text.txt"], "--text is no setting of --task translation"),
        (["train", "--text", "text.txt", "--set", "model.positions=learned"], "there is no setting 'model.positions'"),
        (["train", "--text", "none.txt", "--out", "x"], "cannot read none.txt: No such file or directory"),
        (["train", "--resume", "RUN", "--task", "translation"], "--task cannot be changed with --resume"),
        (["train", "--resume", "RUN", "--length", "5"], "--length cannot be changed with --resume"),
        (["evaluate", "--model", "RUN", "--stride", "9"], "stride is 9: expected 1 to data.length, 8"),
        (
            ["evaluate", "--model", "RUN", "--data", "text.txt"],
            "expected --text in place of pairs",
        ),
        (["evaluate", "--text", "text.txt"], "--text is for a language model, which --model says where to find"),
        (["translate", "--model", "RUN", "one"], "is no configuration of this program"),
    ],
)
def test_what_does_not_go_together_is_said_in_a_line(trained, tmp_path, arguments, message):
    result = run(*(str(trained) if argument == "RUN" else argument for argument in arguments))
    assert result.exit_code == 2 or result.exit_code == 1
    assert message in result.output
    assert "Traceback" not in result.output
    assert not (tmp_path / "x").exists()


def test_a_language_models_text_is_nothing_for_a_model_that_translates(tmp_path):
    translation.run(tmp_path / "other", training__steps=2)
    result = run("evaluate", "--model", "other", "--text", "text.txt")
    assert "--text is for a language model" in result.output
    result = run("train", "--resume", "other", "--task", "language-model")
    assert "other is of translation" in result.output
