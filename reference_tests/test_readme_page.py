"""README.md says what is true: its table is measured anew, its code runs, its tree and its commands exist."""

import configparser
import re

import pytest
import torch

from docs import measure_readme

ROOT = measure_readme.PAGE.parent
ERROR = re.compile(r"(?<=\| )(?:\de-\d+|0)(?= \|)")


@pytest.fixture(scope="module")
def page():
    return measure_readme.PAGE.read_text(encoding="utf-8")


def test_the_table_is_as_measured(page):
    """Names, sources and counts exactly; errors by their size, which depends on the processor's rounding."""
    written = re.search(r"<!-- measured: components -->\n(.*?)\n<!-- end -->", page, re.DOTALL)[1]
    measured = measure_readme.tables()["components"]
    assert ERROR.sub("#", written) == ERROR.sub("#", measured)
    for old, new in zip(ERROR.findall(written), ERROR.findall(measured), strict=True):
        assert float(new) <= max(20 * float(old), 1e-15), (old, new)


def test_the_code_runs(page):
    names = {}
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(code, names)
    assert names["logits"].shape == (3, 7, 50)
    assert torch.isfinite(names["logits"]).all()


def test_the_tree_names_what_exists(page):
    tree = re.search(r"```\n(scratch_transformer/\n.*?)```", page, re.DOTALL)[1]
    for line in tree.splitlines():
        parent = ROOT / "scratch_transformer" if line.startswith(" ") else ROOT
        for name in line.strip().split("  ")[0].split():
            assert (parent / name).exists(), name


def test_the_tree_is_complete(page):
    tree = re.search(r"```\n(scratch_transformer/\n.*?)```", page, re.DOTALL)[1]
    in_tree = set(re.findall(r"^  (\S+)(?: (\S+\.py))?", tree, re.MULTILINE))
    named = {name.rstrip("/") for pair in in_tree for name in pair if name}
    rooms = {
        path.name for path in (ROOT / "scratch_transformer").iterdir() if path.suffix == ".py" or any(path.glob("*.py"))
    }
    assert rooms - named == {"__init__.py", "__main__.py", "cli.py"}


def test_the_tox_environments_exist(page):
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    for name in re.findall(r"tox -e (\w+)", page):
        assert f"testenv:{name}" in tox, name


def test_the_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", page):
        assert (ROOT / target).exists(), target
