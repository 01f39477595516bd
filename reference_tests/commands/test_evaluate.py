"""`scratch-transformer evaluate`, as its user meets it."""

import json
import shutil

import pytest
from click.testing import CliRunner

from reference_tests.translation import small_run
from scratch_transformer.commands.evaluate import evaluate
from scratch_transformer.translation import metrics


def run(*arguments):
    return CliRunner().invoke(evaluate, ["--model", str(small_run.folder()), *arguments])


@pytest.mark.parametrize("search", [[], ["--beam", "2", "--length-penalty", "1"]], ids=["greedy", "beam"])
def test_what_was_learned_by_heart_scores_best(search):
    result = run(*search)
    assert result.exit_code == 0, result.output
    scores = dict(line.split()[:2] for line in result.stdout.splitlines()[: len(metrics.MEANINGS)])
    assert scores.pop("perplexity") < "1.1"
    assert scores == {
        "BLEU": "100.00", "chrF": "100.00", "CER": "0.0000", "WER": "0.0000", "exact_match": "1.0000",
        "token_accuracy": "1.0000",
    }  # fmt: skip
    assert f"8 held-out pairs, {'beam 2, α = 1.0' if search else 'greedy'}" in result.stdout
    assert "BLEU nrefs:1|case:mixed|eff:yes|tok:13a|smooth:exp|version:" in result.stdout


def test_json_has_scores_definitions_and_translations(tmp_path):
    other = shutil.copytree(small_run.folder(), tmp_path / "run")
    pairs = [("seven", "sieben"), ("two", "drei"), ("three", "drei")]
    (other / "held_out.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    result = CliRunner().invoke(evaluate, ["--model", str(other), "--json", str(tmp_path / "scores.json")])
    assert result.exit_code == 0, result.output
    document = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))
    assert document["scores"]["exact_match"] == pytest.approx(2 / 3)
    assert document["definitions"].keys() < document["scores"].keys()
    assert [row["translation"] for row in document["translations"]] == ["sieben", "zwei", "drei"]
    assert [row["reference"] for row in document["translations"]] == ["sieben", "drei", "drei"]
    assert document["pairs"] == 3 and document["beam"] == 1


def test_pairs_that_the_model_has_no_room_for_are_left_out_and_named(tmp_path):
    other = shutil.copytree(small_run.folder(), tmp_path / "run")
    pairs = [("seven", "sieben"), ("two " * 30, "zwei"), ("three", "drei" * 30), ("ж", "drei"), ("three", "")]
    (other / "held_out.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    result = CliRunner().invoke(evaluate, ["--model", str(other), "--json", str(tmp_path / "scores.json")])
    assert result.exit_code == 0, result.output
    assert "1 held-out pairs, greedy" in result.stdout
    left_out = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))["left_out"]
    assert [line.removeprefix("Warning: left out: ") for line in result.stderr.splitlines()] == left_out
    assert [reason.split(":")[0].split(" has")[0] for reason in left_out] == [
        f"held-out pair {i}" for i in (2, 3, 4, 5)
    ]


def test_pairs_of_ones_own(tmp_path):
    """Every line counts, also one that comes twice, or whose accents are written in another way."""
    pairs = [("seven", "sieben"), ("seven", "sieben"), ("two", "drei")]
    (tmp_path / "own.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs) + "no pair\n")
    result = run("--data", str(tmp_path / "own.tsv"), "--json", str(tmp_path / "tsv.json"))
    assert result.exit_code == 0, result.output
    assert "\n3 pairs, greedy" in result.stdout
    assert "own.tsv, line 4: has 1 columns" in result.stderr
    document = json.loads((tmp_path / "tsv.json").read_text(encoding="utf-8"))
    assert document["scores"]["exact_match"] == pytest.approx(2 / 3) and len(document["left_out"]) == 1
    for side, name in enumerate(("a.en", "a.de")):
        (tmp_path / name).write_text("".join(f"{pair[side]}\n" for pair in pairs))
    files = ("--source-file", str(tmp_path / "a.en"), "--target-file", str(tmp_path / "a.de"))
    assert run(*files).stdout == result.stdout
    for arguments, message in {
        files[:2]: "--source-file and --target-file: expected both",
        (*files, "--data", "x"): "--data and --source-file: expected one of them",
        ("--data", str(tmp_path / "nowhere.tsv")): "nowhere.tsv: No such file or directory",
    }.items():
        refused = run(*arguments)
        assert refused.exit_code == 2 and message in refused.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    "line", [b"\xff", b"5", b"null", b'["one"]', b'["one", 5]', b'{"one": 1, "two": 2}', b"[" * 9999]
)
def test_held_out_pairs_of_another_form_are_one_line(tmp_path, line):
    other = shutil.copytree(small_run.folder(), tmp_path / "run")
    (other / "held_out.jsonl").write_bytes(b'["one", "eins"]\n' + line)
    result = run("--model", str(other))
    assert result.exit_code == 2
    assert result.stderr == f'Error: {other / "held_out.jsonl"}, line 2: expected ["source", "target"]\n'


def test_bad_input_is_one_line(tmp_path):
    empty = shutil.copytree(small_run.folder(), tmp_path / "run")
    (empty / "held_out.jsonl").write_text("")
    for arguments, message in {
        ("--model", str(empty)): "has no held-out pairs",
        ("--model", str(tmp_path)): "is no run: it has no config.json",
        ("--json", str(tmp_path)): f"cannot write {tmp_path}: {tmp_path} is a folder",
        ("--beam", "0"): "0 is not in the range 1<=x<=1000",
        ("--length-penalty", "inf"): "the length penalty is inf: expected a number from 0 to 100",
    }.items():
        result = run(*arguments)
        assert result.exit_code == 2
        assert message in result.stderr.splitlines()[-1]
        assert result.stdout == ""
