"""Runs with bytes, and with vocabularies that others made."""

import json
import shutil

import pytest
from click.testing import CliRunner

from reference_tests.translation import tiny
from reference_tests.translation.test_tokenizer import like_bert, like_gpt2
from scratch_transformer import cli
from scratch_transformer.translation import checkpoint
from scratch_transformer.translation.errors import InputError
from scratch_transformer.translation.tokenizer import Tokenizer
from scratch_transformer.translation.train import resume

SMALL = [argument for name, value in tiny.SETTINGS.items() if name != "tokens.kind"
         for argument in ("--set", f"{name}={value}")]  # fmt: skip


def command(*arguments):
    result = CliRunner().invoke(cli.main, arguments)
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture
def ready(tmp_path):
    like_gpt2().save(str(tmp_path / "tokenizer.json"))
    return str(tmp_path / "tokenizer.json")


LONGER = ["--set", "data.max_length=64", "--set", "training.batch_tokens=256"]


def test_bytes_leave_nothing_unknown(tmp_path):
    out = str(tmp_path / "run")
    command("train", *SMALL, "--byte-fallback", "--vocab-size", "290", "--steps", "1", "--out", out, *LONGER)
    run = checkpoint.load_run(out)
    assert run.config.tokens.byte_fallback and run.source_tokenizer.vocab_size == 290
    result = command("translate", "--model", out, "日本")
    assert "Warning" not in result.stderr.replace("Warning: a translation of sentence 1 was cut", "")


def test_a_ready_vocabulary_is_taken_and_checked(tmp_path, ready):
    out = tmp_path / "run"
    command("train", *SMALL, "--tokenizer", ready, "--steps", "2", "--out", str(out), *LONGER)
    assert (out / "tokenizer.json").read_bytes() == (tmp_path / "tokenizer.json").read_bytes()
    run = checkpoint.load_run(out)
    assert run.source_tokenizer is run.target_tokenizer
    assert run.source_tokenizer.vocab_size == Tokenizer.load(tmp_path / "tokenizer.json").vocab_size
    command("translate", "--model", str(out), "two hundred")
    (tmp_path / "tokenizer.json").unlink()  # the run has its own
    resume(out, say=lambda line: None, **{"training.steps": 4})
    document = json.loads((out / "tokenizer.json").read_text())
    document["model"]["dropout"] = 0.5
    (out / "tokenizer.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match="tokenizer.json: is damaged or another file than the one that was saved"):
        checkpoint.load_run(out)


def test_one_for_each_language(tmp_path, ready):
    shutil.copy(ready, tmp_path / "other.json")
    others = ["--set", f"tokens.target_file={tmp_path / 'other.json'}"]
    command("train", *SMALL, "--tokenizer", ready, *others, "--steps", "1", "--out", str(tmp_path / "run"), *LONGER)
    assert (tmp_path / "run" / "target_tokenizer.json").read_bytes() == (tmp_path / "other.json").read_bytes()


def test_a_vocabulary_that_changes_the_sentences_is_said(tmp_path):
    """German has capitals; this vocabulary has none."""
    like_bert().save(str(tmp_path / "t.json"))
    (tmp_path / "c.tsv").write_text("".join(f"six {i}\tSechs {i}\n" for i in range(40)))
    out, sizes = str(tmp_path / "run"), ["--set", "data.held_out=3", "--set", "data.validation=3"]
    data = ["--data", str(tmp_path / "c.tsv"), *sizes, "--tokenizer", str(tmp_path / "t.json")]
    result = command("train", *SMALL, *data, "--steps", "1", "--out", out)
    words = f"Warning: 100% of the target sentences do not come back from {tmp_path / 't.json'} as they were\n"
    assert words in result.output


def test_what_a_ready_vocabulary_lacks_no_larger_size_brings(tmp_path):
    (tmp_path / "c.tsv").write_text("".join(f"жж {i}\tsechs {i}\n" for i in range(40)))
    like_bert().save(str(tmp_path / "t.json"))
    sizes = ["--set", "data.held_out=3", "--set", "data.validation=3", "--steps", "1"]
    data = ["--data", str(tmp_path / "c.tsv"), "--tokenizer", str(tmp_path / "t.json")]
    result = command("train", *SMALL, *data, *sizes, "--out", str(tmp_path / "run"))
    assert "% of the source tokens are unknown: expected another --tokenizer\n" in result.output


@pytest.mark.parametrize("content", [None, b"{}"])
def test_a_file_that_is_no_vocabulary_leaves_no_run(tmp_path, content):
    if content:
        (tmp_path / "t.json").write_bytes(content)
    result = CliRunner().invoke(
        cli.main, ["train", *SMALL, "--tokenizer", str(tmp_path / "t.json"), "--out", str(tmp_path / "run")]
    )
    assert result.exit_code == 2 and str(tmp_path / "t.json") in result.stderr.splitlines()[-1]
    assert not (tmp_path / "run").exists()
