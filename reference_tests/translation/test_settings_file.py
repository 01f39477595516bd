"""Settings from a file, and from a run that is trained on."""

import json
import shutil

import pytest
import torch
from click.testing import CliRunner

from reference_tests.translation import tiny
from scratch_transformer import cli
from scratch_transformer.translation import checkpoint, settings_file
from scratch_transformer.translation.config import Config
from scratch_transformer.translation.errors import InputError
from scratch_transformer.translation.train import resume


def run(*arguments):
    return CliRunner().invoke(cli.main, ["train", *map(str, arguments)])


def write_toml(path, **others):
    sections = {}
    for name, value in {**tiny.SETTINGS, **others}.items():
        section, _, key = name.partition(".")
        sections.setdefault(section, []).append(f"{key} = {json.dumps(value)}\n")
    path.write_text("".join(f"[{section}]\n{''.join(lines)}" for section, lines in sections.items()))
    return path


def test_a_toml_file_and_a_config_json_are_the_same_settings(tmp_path):
    result = run("--config", write_toml(tmp_path / "a.toml"), "--out", tmp_path / "a", "--steps", "2")
    assert result.exit_code == 0, result.output
    assert checkpoint.read_config(tmp_path / "a") == tiny.config(training__steps=2)
    result = run("--config", tmp_path / "a" / "config.json", "--out", tmp_path / "b", "--set", "training.steps=1")
    assert result.exit_code == 0, result.output
    assert checkpoint.read_config(tmp_path / "b") == tiny.config(training__steps=1)


@pytest.mark.parametrize(
    "text, message",
    [
        ("steps = 5", "expected sections with settings, such as [training]"),
        ("[training", "expected TOML, got"),
        ("", "expected sections with settings"),
        ("[training]\nstep = 5", "there is no setting 'training.step'; is it training.steps?"),
        ("[training]\nsteps = 'many'", "training.steps is 'many': expected a whole number"),
        ("[trainign]\nsteps = 5", "there is no setting 'trainign.steps'"),
        (
            'format = "other/1"\n[training]\nsteps = 5',
            "has settings of other/1, not of scratch_transformer.tr",
        ),
        ("\ufeff[training]\nsteps = 0", "training.steps is 0"),
    ],
)
def test_files_that_are_refused(tmp_path, text, message):
    (tmp_path / "a.toml").write_text(text, encoding="utf-8")
    result = run("--config", tmp_path / "a.toml", "--out", tmp_path / "x")
    assert result.exit_code == 2 and message in result.stderr.splitlines()[-1]
    assert not (tmp_path / "x").exists()


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="^cannot read .*nowhere.toml"):
        settings_file.read(tmp_path / "nowhere.toml", Config.format)


# ---- Fine-tuning ----


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "first"
    tiny.run(folder)
    return folder


def test_training_goes_on_from_another_run_with_other_data(first, tmp_path):
    (tmp_path / "own.tsv").write_text("".join(f"one {i}\teins {i}\n" for i in range(60)))
    options = ("--from", first, "--data", tmp_path / "own.tsv", "--steps", "4", "--set", "training.lr_factor=0")
    result = run(*options, "--out", tmp_path / "run")
    assert result.exit_code == 0, result.output
    assert f"starting with the weights of {checkpoint.best(first)}\n" in result.output
    tuned, start = checkpoint.load_run(tmp_path / "run"), checkpoint.load_run(first)
    assert all(map(torch.equal, tuned.model.parameters(), start.model.parameters()))  # nothing was learned, at rate 0
    for name in ("source_tokenizer.json", "target_tokenizer.json"):
        assert (tmp_path / "run" / name).read_bytes() == (first / name).read_bytes()
    assert tuned.config.data.tsv == str(tmp_path / "own.tsv") and tuned.config.data.below == 1_000_000

    words = f"% of the source tokens are unknown: expected data in the languages of {first}"
    assert words in result.output  # another size of the vocabulary is not to be had

    shutil.rmtree(tmp_path / "run" / "checkpoints")  # as if it was killed before the first
    resume(tmp_path / "run", say=print)
    again = checkpoint.load_run(tmp_path / "run")
    assert all(map(torch.equal, again.model.parameters(), start.model.parameters()))


@pytest.mark.parametrize("option", [("--norm", "post"), ("--tokenizer", "char"), ("--preset", "base")])
def test_the_model_stays_that_of_the_run(first, tmp_path, option):
    result = run("--from", first, *option, "--out", tmp_path / "run")
    assert result.exit_code == 2 and f"cannot be changed with --from: the model is that of {first}" in result.stderr


def test_a_run_that_is_of_no_use_is_noticed_before_the_data_are_read(first, tmp_path):
    broken = shutil.copytree(first, tmp_path / "broken")
    (broken / "source_tokenizer.json").write_text("{}")
    result = run("--from", broken, "--data", tmp_path / "nowhere.tsv", "--out", tmp_path / "run")
    assert result.exit_code == 2 and "source_tokenizer.json: is damaged or another file" in result.stderr
    assert "reading" not in result.output and not (tmp_path / "run").exists()
