"""`scratch-transformer view`, as its user meets it."""

import click
import pytest
from click.testing import CliRunner

from scratch_transformer.commands.view import view


@pytest.fixture
def run():
    return lambda *arguments: CliRunner().invoke(view, list(map(str, arguments)))


def test_writes_the_page_and_says_where(run, tmp_path):
    result = run("seven", "--out", tmp_path / "seven.html")
    assert result.exit_code == 0, result.output
    size = len((tmp_path / "seven.html").read_bytes())
    assert result.output == f"{tmp_path / 'seven.html'}: {size / 1e6:.1f} MB\n"
    assert (tmp_path / "seven.html").read_text("utf-8").startswith("<!doctype html>")


def test_opens_it(run, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(click, "launch", opened.append)
    assert run("seven", "--out", tmp_path / "seven.html", "--open").exit_code == 0
    assert opened == [str(tmp_path / "seven.html")]


def test_a_word_with_unknown_letters_is_said(run, tmp_path):
    result = run("forty-日", "--out", tmp_path / "page.html")
    assert result.exit_code == 0
    assert "Warning: the model does not know all of 'forty-日'" in result.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([""], "the sentence is empty: expected a sentence"),
        (["one " * 500], "the sentence has 501 tokens with its end, but the model reads at most 128"),
        (["日本"], "the model knows nothing of '日本'"),
        (["--model", "nowhere"], "there is no folder nowhere"),
        (["--model", "."], ". is no run: it has no config.json"),
        (["--out", "nowhere/page.html"], "cannot write nowhere/page.html: No such file or directory"),
        (["--out", "."], "cannot write .: "),
    ],
)
def test_what_is_wrong_is_said_in_a_line(arguments, says, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code == 2
    assert says in result.output.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []
