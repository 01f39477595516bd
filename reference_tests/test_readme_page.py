"""README.md says what is true: its code runs, its example is what the kit says, its commands and links exist."""

import configparser
import re
from pathlib import Path

import pytest
import torch

from reference_tests.kit.learners.checked import check_here

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def page():
    return (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_code_runs(page):
    names = {}
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(code, names)
    assert names["logits"].shape == (3, 7, 50)
    assert torch.isfinite(names["logits"]).all()


def test_the_example_is_what_the_kit_says(page):
    (quoted,) = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    head, *parts = quoted.splitlines()
    torch.manual_seed(0)
    found = check_here(ROOT / "docs" / "examples" / "my_transformer.py")["LayerNorm"]
    (named,) = found.mistakes
    assert head == f"LayerNorm, {named.where}: {named.title} ({named.id})"
    said = {"The numbers": named.evidence, "The fix": named.fix, "Source": named.source}
    for part in parts:
        heading, _, words = part.strip().partition(": ")
        assert said.pop(heading).startswith(words)
    assert not said


def test_the_tox_environments_exist(page):
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    for name in re.findall(r"tox -e (\w+)", page):
        assert f"testenv:{name}" in tox, name


def test_the_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", page):
        assert (ROOT / target).exists(), target


def test_it_is_read_in_two_minutes(page):
    assert len(page.split()) < 700
