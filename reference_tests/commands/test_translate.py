"""`scratch-transformer translate`, as its user meets it."""

import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from reference_tests.commands.limited import limited
from reference_tests.translation import small_run
from scratch_transformer import cli
from scratch_transformer.commands.translate import _converse, translate
from scratch_transformer.translation import streaming
from scratch_transformer.translation.checkpoint import load_run
from scratch_transformer.translation.decoding import beam_search
from scratch_transformer.translation.tokenizer import Tokenizer
from scratch_transformer.translation.translator import Search


@pytest.fixture(scope="module")
def folder():
    return str(small_run.folder())


@pytest.fixture
def run(folder):
    return lambda *arguments, **options: CliRunner().invoke(translate, ["--model", folder, *arguments], **options)


def test_prints_a_line_for_every_sentence(run):
    result = run("twenty-one", "seven")
    assert result.exit_code == 0, result.output
    assert result.output == "einundzwanzig\nsieben\n"


def test_reads_standard_input_line_by_line(run):
    sources, targets = zip(*small_run.PAIRS, strict=True)
    result = run(input="\n".join(sources) + "\n")
    assert result.output.splitlines() == list(targets)
    assert run("--beam", "3", input="\n".join(sources)).output.splitlines() == list(targets)


def test_n_best_have_number_score_and_text(run, folder):
    result = run("--beam", "3", "--n-best", "2", "--length-penalty", "1", "seven", "three")
    rows = [line.split("\t") for line in result.output.splitlines()]
    assert [row[0] for row in rows] == ["1", "1", "2", "2"]
    assert [rows[0][2], rows[2][2]] == ["sieben", "drei"]

    model = load_run(folder)
    ids = small_run.padded([[*model.source_tokenizer.encode("seven"), model.source_tokenizer.eos_id]])
    found = beam_search(model.model, ids, 0, 2, 3, small_run.LONGEST, beam=3, alpha=1.0)[0][:2]
    assert [(row[1], row[2]) for row in rows[:2]] == [
        (f"{h.score:.4f}", model.target_tokenizer.decode(h.ids)) for h in found
    ]


def test_the_same_seed_draws_the_same(run):
    options = ("--sample", "--temperature", "4", "--n-best", "3", "--max-length", "9", "one")
    first, again, other = (run(*options, "--seed", seed).output for seed in ("1", "1", "2"))
    assert first == again != other
    safe = run("--sample", "--top-k", "1", "--top-p", "0.5", "--temperature", "9", "seven")
    assert safe.output == "sieben\n"


def test_a_cut_translation_and_unknown_words_are_reported(run):
    result = run("--max-length", "1", "seventy-two ж")
    assert result.exit_code == 0
    assert "Warning: sentence 1: the model does not know all of 'ж'" in result.stderr
    assert "Warning: a translation of sentence 1 was cut at its greatest length" in result.stderr
    assert len(result.stdout.splitlines()) == 1


def test_attention_is_written_beside_the_translation(run, tmp_path):
    result = run("--attention", str(tmp_path / "maps.json"), "twenty-one")
    assert result.output == "einundzwanzig\n"
    data = json.loads((tmp_path / "maps.json").read_text())
    assert "".join(data["decoder_tokens"]) == "<bos>▁einundzwanzig"


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["a" * 30], "sentence 1 has 32 tokens with its end, but the model reads at most 20"),
        (["seven", " "], "sentence 2 is empty: expected a sentence"),
        (["жж"], "sentence 1: the model knows nothing of 'жж'"),
        (["--beam", "0", "one"], "'--beam': 0 is not in the range 1<=x<=1000"),
        (["--beam", "2", "--sample", "one"], "--beam and --sample: expected one of them"),
        (["--n-best", "2", "one"], "--n-best 2: expected --beam of at least 2, or --sample"),
        (["--n-best", "3", "--beam", "2", "one"], "--n-best 3: expected --beam of at least 3, or --sample"),
        (["--temperature", "2", "one"], "--temperature is for --sample, which is not given"),
        (["--top-k", "2", "one"], "--top-k is for --sample, which is not given"),
        (["--seed", "2", "one"], "--seed is for --sample, which is not given"),
        (["--sample", "--temperature", "0", "one"], "temperature must be a finite number above 0, but is 0.0"),
        (["--sample", "--top-p", "1.5", "one"], "top_p must be above 0 and at most 1, but is 1.5"),
        (["--length-penalty", "nan", "one"], "the length penalty is nan: expected a number from 0 to 100"),
        (["--length-penalty", "-1", "one"], "the length penalty is -1.0: expected a number from 0 to 100"),
        (["--max-length", "21", "one"], "--max-length 21: the model writes at most 20 tokens"),
        (["--attention", "maps.gif", "one"], "expected a file that ends in .json, .png, .svg, .pdf"),
        (["--attention", "nowhere/maps.png", "one"], "cannot write nowhere/maps.png: No such file or directory"),
        (["--attention", "maps.json", "one", "two"], "--attention shows one sentence, but there are 2"),
        (["--device", "abacus", "one"], "Invalid value for '--device': abacus"),
        (["--device", "meta", "one"], "Invalid value for '--device': meta"),
        (["--beam", "1001", "one"], "'--beam': 1001 is not in the range 1<=x<=1000"),
        (["--sample", "--n-best", "1001", "one"], "'--n-best': 1001 is not in the range 1<=x<=1000"),
        (["\udcff"], "sentence 1 is not text in UTF-8: '\\udcff'"),
    ],
)
def test_bad_input_is_one_line(run, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr.splitlines()[-1]
    assert result.stdout == ""
    assert not list(tmp_path.iterdir())


def test_no_sentences_at_all(run):
    result = run(input="")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.splitlines()[-1].endswith("give them as arguments, or one per line on standard input")


LINES = b"one\n\nseven\r\n" + b"a" * 30 + b"\n\xff\xfe\nthree\n\xd0\xb6\xd0\xb6\ntwo \xd0\xb6\ntwenty-one"
WARNINGS = [
    "line 2 is empty: expected a sentence",
    "line 4 has 32 tokens with its end, but the model reads at most 20",
    "line 5 is not text in UTF-8: '\\udcff\\udcfe'",
    "line 7: the model knows nothing of 'жж'",
    "line 8: the model does not know all of 'ж'",
    "4 of 9 lines have no translation",
]


@pytest.mark.parametrize("size", ["1", "2", "64"])
def test_a_bad_line_costs_that_line_and_no_other(run, size):
    result = run("--batch-size", size, input=LINES)
    assert result.exit_code == 0, result.output
    assert [warning.removeprefix("Warning: ") for warning in result.stderr.splitlines()] == WARNINGS
    lines = result.stdout.split("\n")
    assert lines[:7] == ["eins", "", "sieben", "", "", "drei", ""] and lines[8:] == ["einundzwanzig", ""] and lines[7]


def test_n_best_of_lines_are_named_by_their_numbers(run):
    rows = [line.split("\t") for line in run("--beam", "2", "--n-best", "1", input=LINES).stdout.splitlines()]
    assert [row[0] for row in rows] == ["1", "3", "6", "8", "9"]


def test_what_is_drawn_goes_on_from_batch_to_batch(run):
    drawn = run("--sample", "--temperature", "9", "--batch-size", "1", input="one\n" * 6).stdout.splitlines()
    assert len(set(drawn)) > 3


def test_lines_come_out_before_the_last_has_come_in(folder):
    """So that a pipe, or a person at its other end, need not wait; at most `batch_size` lines are read ahead."""
    read = []
    lines = (read.append(line) or line for line in [b"one\n", b"two\n", b"three\n"])
    found = streaming.translations(load_run(folder), lines, Search(), 2, print)
    assert len(next(found)) == 2 and len(read) == 2


def test_interrupted_what_is_done_stays(run, tmp_path, monkeypatch):
    translated = streaming.translate

    def interrupted(*arguments, **options):
        if (tmp_path / "out.txt").read_text():
            raise KeyboardInterrupt
        return translated(*arguments, **options)

    monkeypatch.setattr(streaming, "translate", interrupted)
    result = run("--batch-size", "2", "--out", str(tmp_path / "out.txt"), input="one\nseven\nthree\n")
    assert result.exit_code == 1
    assert (tmp_path / "out.txt").read_text() == "eins\nsieben\n" and result.stdout == ""
    assert "Warning: interrupted: the first 2 lines are translated" in result.stderr


def test_what_is_written_of_a_batch_counts(run, tmp_path, monkeypatch):
    """Or whoever goes on behind what is said would have lines twice."""
    decode = Tokenizer.decode

    def interrupted(self, ids):
        if (text := decode(self, ids)) == "drei" and (tmp_path / "out.txt").read_text():
            raise KeyboardInterrupt
        return text

    monkeypatch.setattr(Tokenizer, "decode", interrupted)
    result = run("--out", str(tmp_path / "out.txt"), input="one\nseven\nthree\n")
    assert (tmp_path / "out.txt").read_text() == "eins\nsieben\n"
    assert "Warning: interrupted: the first 2 lines are translated" in result.stderr


def test_a_warning_takes_the_place_of_the_bar(run, tmp_path, monkeypatch):
    from rich.console import Console

    monkeypatch.setattr(Console, "is_terminal", True)
    result = run("--out", str(tmp_path / "out.txt"), "--max-length", "1", input="seventy-two\n")
    assert "\x1b[2KWarning: a translation of sentence 1 was cut" in result.stderr


@pytest.mark.parametrize("arguments", [[], ["--attention", "maps.json"]], ids=str)
def test_a_standard_input_that_is_closed_has_no_sentences(folder, monkeypatch, arguments, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(click.UsageError, match="no sentences: give them|shows one sentence, but there are 0"):
        translate.main(["--model", folder, *arguments], standalone_mode=False)


def test_what_an_encoding_lacks_is_escaped(folder):
    result = CliRunner(charset="ascii").invoke(cli.main, ["translate", "--model", folder, "one"])
    assert result.exit_code == 0
    result = CliRunner(charset="ascii").invoke(cli.main, ["translate", "five"])
    assert (result.exit_code, result.stdout) == (0, "f\\xfcnf\n")


@pytest.mark.parametrize("arguments", [["one"], []], ids=str)
def test_a_full_standard_output_is_named(folder, monkeypatch, arguments):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("scratch_transformer.commands.translate._print", full)
    result = CliRunner().invoke(cli.main, ["translate", "--model", folder, *arguments], input="one\n")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == "Error: cannot write standard output: there is no room"


def test_sentences_go_to_the_file_too_and_a_file_that_cannot_be_written_is_one_line(run, tmp_path):
    assert run("--out", str(tmp_path / "out.txt"), "one", "two").stdout == ""
    assert (tmp_path / "out.txt").read_text() == "eins\nzwei\n"
    result = run("--out", str(tmp_path / "nowhere" / "out.txt"), "one")
    assert result.exit_code == 2 and "No such file or directory" in result.stderr


def test_a_translation_is_one_line_whatever_the_model_writes(run, monkeypatch):
    """A vocabulary of bytes has the ends of lines too."""
    monkeypatch.setattr(Tokenizer, "decode", lambda self, ids: "ei\nn\r\ns")
    assert run(input="one\ntwo\n").stdout == "ei n s\nei n s\n"
    assert run("--beam", "2", "--n-best", "1", "one").stdout.count("\n") == 1


def test_the_file_that_is_read_is_not_written(folder, tmp_path):
    (tmp_path / "lines.txt").write_text("one\n")
    command = [sys.executable, "-m", "scratch_transformer", "translate", "--model", folder]
    with (tmp_path / "lines.txt").open() as lines:
        done = subprocess.run(
            [*command, "--out", lines.name], stdin=lines, capture_output=True, text=True, cwd=Path(__file__).parents[2]
        )
    assert done.returncode == 2 and "lines.txt: is the file that is read, expected another" in done.stderr
    assert (tmp_path / "lines.txt").read_text() == "one\n"


def test_where_nobody_reads_on_it_ends_quietly(folder):
    command = [sys.executable, "-m", "scratch_transformer", "translate", "--model", folder]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        command, input="one\n" * 3, stdout=writing, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    )
    os.close(writing)
    assert done.stderr == ""


def test_a_folder_that_is_no_run_is_one_line(tmp_path):
    for name in ("nowhere", "", "checkpoints", "checkpoints/step-00000002"):
        result = CliRunner().invoke(translate, ["--model", str(tmp_path / name), "one"])
        assert result.exit_code == 2
        assert result.stderr.startswith("Error: ") and len(result.stderr.splitlines()) == 1


def test_a_checkpoint_that_is_not_there_is_not_replaced_by_another(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "run")
    missing = tmp_path / "run" / "checkpoints" / "step-00000002"
    result = CliRunner().invoke(translate, ["--model", str(missing), "one"])
    assert result.exit_code == 2
    assert result.stderr == f"Error: cannot read {missing / 'model.safetensors'}: there is no such file\n"


@pytest.mark.parametrize("name", ["config.json", "source_tokenizer.json", "model.safetensors"])
def test_a_damaged_run_is_one_line(folder, tmp_path, name):
    broken = shutil.copytree(folder, tmp_path / "run")
    content = (broken / name).read_bytes()
    (broken / name).write_bytes(content[: len(content) // 2])
    result = CliRunner().invoke(translate, ["--model", str(broken), "one"])
    assert result.exit_code == 2
    assert name in result.stderr and len(result.stderr.splitlines()) == 1


def test_n_best_differ_as_texts(run):
    result = run("--beam", "30", "--n-best", "30", "--max-length", "6", "two")
    texts = [line.split("\t")[2] for line in result.stdout.splitlines()]
    assert len(set(texts)) == len(texts) > 10


def test_a_person_gets_an_answer_to_every_line_and_may_go_on_after_a_mistake(folder, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO("seven\n\nthree\n"))
    _converse(load_run(folder), Search(), None)
    output = capsys.readouterr()
    assert output.out == "sieben\ndrei\n"
    assert output.err.splitlines()[1:] == ["Error: line 2 is empty: expected a sentence"]


def test_eight_bits_are_for_a_cpu(monkeypatch):
    result = CliRunner().invoke(translate, ["--int8", "forty-two"])
    assert (result.exit_code, result.stdout) == (0, "zweiundvierzig\n"), result.output
    monkeypatch.setattr("scratch_transformer.options.Device.convert", lambda self, value, param, ctx: value)
    result = CliRunner().invoke(translate, ["--int8", "--device", "cuda", "forty-two"])
    assert result.exit_code == 2 and "--int8 is for --device cpu, but that is cuda" in result.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="needs setrlimit")
def test_a_file_that_may_not_grow_is_named(tmp_path):
    """With how far it came."""
    arguments = ["translate", "--model", str(small_run.folder()), "--batch-size", "8", "--out", str(tmp_path / "x.de")]
    done = limited("RLIMIT_FSIZE", 100, *arguments, input="seven\n" * 40)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "Warning: interrupted: the first 14 lines are translated",
        f"Error: cannot write {tmp_path / 'x.de'}: File too large",
    ]
