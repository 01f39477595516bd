"""`scratch-transformer trace`, as its user meets it."""

import json

import pytest
from click.testing import CliRunner
from safetensors import safe_open

from reference_tests.translation import small_run
from scratch_transformer.commands.trace import trace


def run(*arguments):
    return CliRunner().invoke(trace, arguments)


def test_without_anything_trained():
    result = run("forty-two")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == "forty-two → zweiundvierzig" and lines[1].startswith("source  ▁forty - two <eos>")
    (weights,) = (line for line in lines if line.startswith("decoder.layers.1.cross_attention.weights "))
    assert "1 × 4 × 6 × 4" in weights and "B h T S" in weights and "functional.py:" in weights
    assert "tensors; torch.nn's are at most" in lines[-1]


def test_a_run_of_ones_own(tmp_path):
    out, document = tmp_path / "t.safetensors", tmp_path / "t.json"
    result = run("seven", "--model", str(small_run.folder()), "--out", str(out), "--json", str(document))
    assert result.exit_code == 0, result.output
    names = [point["name"] for point in json.loads(document.read_text(encoding="utf-8"))["points"]]
    with safe_open(out, "pt") as file:
        assert set(names) < set(file.keys()) and file.get_tensor("encoder.norm").shape[-1] == 32
    assert sum(line.split(" ")[0] in names for line in result.output.splitlines()) == len(names)


def test_only_some_with_their_numbers():
    result = run("one", "--only", "encoder.layers.0.*.maxima", "--values")
    assert "1 tensors" in result.output and "tensor([[[[" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "no sentence: scratch-transformer trace"),
        (("",), "the sentence is empty: expected a sentence"),
        (("☃",), "the model knows nothing of '☃'"),
        (("one " * 500,), "the sentence has 501 tokens with its end, but the model reads at most 128"),
        (("one", "--only", "x*"), "--only x*: no name matches; names are like decoder"),
        (("one", "--model", "/nowhere"), "there is no folder /nowhere"),
        (("one", "--out", "/nowhere/x"), "cannot write /nowhere/x"),
        (("one", "--json", "/nowhere/x"), "cannot write /nowhere/x"),
    ],
)
def test_bad_input_gets_a_sentence(arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2 and message in result.output
    assert "Traceback" not in result.output


def test_a_run_of_another_kind(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    result = run("one", "--model", str(tmp_path))
    assert result.exit_code == 2 and "is no configuration of this program" in result.output


def test_an_unknown_word_is_warned_of():
    result = run("forty-twö")
    assert result.exit_code == 0 and "the model does not know all of 'forty-twö'" in result.output
