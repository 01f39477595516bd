"""What holds for all pages of the documentation: the commands that they show exist, and code is run by somebody."""

import configparser
import re
import shlex
from pathlib import Path

import pytest

from scratch_transformer.cli import main

ROOT = Path(__file__).parents[1]
WRITTEN = re.compile(r"_build|mistakes/[A-Z]")  # when the site is built, and checked there
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "reference_tests/survivors.md")),
    *sorted(path for path in ROOT.glob("docs/**/*.md") if not WRITTEN.search(str(path.relative_to(ROOT)))),
]
SHELL = re.compile(r"^```sh\n(.*?)^```", re.M | re.S)
EXECUTED = {"README.md", "tutorials.md"}  # by test_readme_page.py and test_tutorials_page.py
pages = pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))


def commands(path):
    """The words of every command in a page's blocks of shell, without comments."""
    for block in SHELL.findall(path.read_text(encoding="utf-8")):
        for line in block.replace("\\\n", " ").splitlines():
            for part in re.split(r"&&|\|", line):
                yield shlex.split(part, comments=True)


@pages
def test_our_commands_and_their_options_exist(path):
    for words in commands(path):
        if words[:1] == ["scratch-transformer"] and not words[1].startswith("-"):
            command = main.get_command(None, words[1])
            assert command is not None, words
            parameters = [
                *command.params,
                *(p for sub in getattr(command, "commands", {}).values() for p in sub.params),
            ]
            options = {
                option for parameter in parameters for option in (*parameter.opts, *parameter.secondary_opts)
            } | {"--help"}
            used = {word.partition("=")[0] for word in words if re.fullmatch(r"--[a-z].*", word)}
            assert used <= options, (words, used - options)


@pages
def test_environments_and_files_of_commands_exist(path):
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    for words in commands(path):
        if words[:2] == ["tox", "-e"]:
            for name in words[2].split(","):
                assert f"testenv:{name}" in tox, name
        for word in words:
            if word.startswith(("reference_tests", "benchmarks/", "docs/")) and "VERSION" not in word:
                assert (ROOT / word).exists() or "results" in word, word


@pages
def test_python_is_in_cells_that_are_run(path):
    if path.name not in EXECUTED:
        assert "```python" not in path.read_text(encoding="utf-8")


@pages
def test_links_between_files_lead_somewhere(path):
    for target in re.findall(r"\]\((?!http|#)([^)#\s]+)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target
