"""`scratch-transformer check` and `pytest --check-transformer`, as their users meet them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

CliRunner = pytest.importorskip("click.testing", reason="click is not installed").CliRunner
pytest.importorskip("rich", reason="rich is not installed")
from scratch_transformer.commands.check import check  # noqa: E402  (needs click)

ROOT = str(Path(__file__).parents[2])
RIGHT = """
import torch
from torch import nn


class LayerNorm(nn.Module):
    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        variance = x.var(-1, keepdim=True, unbiased=False)
        return self.weight * (x - mean) / torch.sqrt(variance + self.eps) + self.bias
"""
WRONG = RIGHT.replace(", unbiased=False", "")
UNBUILDABLE = RIGHT.replace("features, eps=1e-5", "features, zebra, eps=1e-5").replace(
    "super().__init__()", "super().__init__()\n        zebra.graze()"
)


def run(*arguments):
    return CliRunner().invoke(check, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("learner")
    for name, text in {"right": RIGHT, "wrong": WRONG, "unbuildable": UNBUILDABLE, "empty": "x = 1\n"}.items():
        (folder / f"{name}.py").write_text(text)
    return folder


@pytest.fixture(scope="module")
def mistaken(folder):
    return run(folder / "wrong.py", "--json", folder / "wrong.json", "--html", folder / "wrong.html"), folder


# ---- What is found ----


def test_right_code_exits_with_0(folder):
    result = run(folder / "right.py", "--strict")
    assert result.exit_code == 0, result.output
    assert result.stdout.rstrip().endswith("No mistake in 1 component.")


def test_a_mistake_exits_with_1_and_is_explained(mistaken):
    result, _ = mistaken
    assert result.exit_code == 1, result.output
    for words in ("LN1", "What it does:", "Expected:", "The numbers:", "wrong.py:15", "The fix:", "Ba et al. 2016"):
        assert words in result.stdout, words
    assert result.stdout.rstrip().endswith("1 of 1 component has a mistake: LayerNorm.")


def test_json_has_verdicts_and_ids(mistaken):
    document = json.loads((mistaken[1] / "wrong.json").read_text())
    (component,) = document["components"]
    assert (component["verdict"], component["mistakes"][0]["id"]) == ("mistake", "LN1")
    assert document["status"] == 1


def test_the_page_is_self_contained(mistaken):
    page = (mistaken[1] / "wrong.html").read_text()
    links = re.findall(r'href="([^"]*)"', page)  # to the site, where it was built in this checkout
    assert "LN1" in page and "<script" not in page and "src=" not in page
    assert all(link.startswith("file:") and link.endswith("mistakes/LN1.html") for link in links)


def test_code_is_shown_as_it_is(folder):
    """A line that goes on behind a backslash, and what looks like markup."""
    text = WRONG.replace("self.eps)", "self.eps) * \\\n            [1.0][0]")
    assert text != WRONG
    (folder / "goes_on.py").write_text(text)
    shown = run(folder / "goes_on.py").stdout
    assert "* \\\n" in shown and "\\\\" not in shown
    assert "[1.0][0]" in shown


def test_what_cannot_be_built_gets_a_stub_and_exits_with_2(folder):
    result = run(folder / "unbuildable.py")
    assert result.exit_code == 2, result.output
    assert "def LayerNorm(weights, x):" in result.stdout and "(12,)" in result.stdout


def test_init_and_as_help_where_names_do_not(folder):
    result = run(f"{folder}/right.py:LayerNorm", "--as", "layernorm", "--init", "features=7")
    assert result.exit_code == 0, result.output


def test_init_with_an_argument_that_the_constructor_does_not_take(folder):
    result = run(f"{folder}/right.py:LayerNorm", "--init", "width=7")
    assert result.exit_code == 2, result.output
    assert "takes no 'width' (--init); it takes features, eps" in " ".join(result.stdout.split())


# ---- Bad usage ----


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((), "name a file"),
        (("no_such.py",), "no such file"),
        (("{folder}/right.py", "--as", "Zebra"), "no kind of component"),
        (("{folder}/right.py", "--init", "features"), "--init must look like"),
        (("{folder}/right.py", "--json", "{folder}"), "cannot write"),
    ],
)
def test_bad_usage_is_one_line_and_exits_with_2(folder, arguments, message):
    result = run(*(argument.format(folder=folder) for argument in arguments))
    assert result.exit_code == 2 and message in result.stderr and "Traceback" not in result.output


def test_nothing_to_check_exits_with_2(folder):
    result = run(folder / "empty.py")
    assert result.exit_code == 2 and "No component was found" in result.stdout


def test_the_list_has_every_component_and_mistake():
    result = run("--list")
    assert result.exit_code == 0 and "MultiheadAttention" in result.stdout and "LN1" in result.stdout


# ---- The plugin ----


def test_pytest_has_a_test_for_every_component(folder, tmp_path):
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "scratch_transformer.pytest_plugin",
        "-p",
        "no:cacheprovider",
        "-q",
    ]
    result = subprocess.run(
        [*command, "--check-transformer", str(folder / "wrong.py"), "--rootdir", str(tmp_path), str(tmp_path)],
        capture_output=True, text=True, check=False, cwd=tmp_path,
        # an installed package registers the plugin already
        env={**os.environ, "PYTHONPATH": ROOT, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )  # fmt: skip
    assert result.returncode == 1, result.stdout + result.stderr
    assert "LN1" in result.stdout and "1 failed" in result.stdout


def test_what_is_not_written_yet_is_said_to_be_so(folder):
    """An exercise as it was handed out, and one of which forward is missing: no error, and no adapter to fill in."""
    missing = "raise NotImplementedError('your code here')"
    (folder / "begun.py").write_text(RIGHT[: RIGHT.index("mean = ")] + missing)
    (folder / "handed_out.py").write_text(RIGHT[: RIGHT.index("super()")] + missing)
    for name, why in {"begun": "not written yet", "handed_out": "abstract: it has no forward"}.items():
        result = run(folder / f"{name}.py", "--json", folder / f"{name}.json")
        document = json.loads((folder / f"{name}.json").read_text())
        assert (document["components"], document["not_components"]) == ([], [f"LayerNorm ({why})"])
        assert result.exit_code == 2
        assert f"LayerNorm ({why})" in result.stdout and "adapters.py" not in result.stdout


def test_torch_is_loaded_by_the_child_alone(mistaken):
    """Loaded by the parent too, and before the child begins, it would double the time of a short check."""
    code = """if True:
        import runpy, sys
        sys.argv = ["scratch-transformer", "check", *sys.argv[1:]]
        try:
            runpy.run_module("scratch_transformer", run_name="__main__")
        except SystemExit as end:
            print(end.code, sorted({"torch", "numpy"} & {*sys.modules}))
    """
    _, folder = mistaken
    command = [sys.executable, "-c", code, "wrong.py", "--json", "parent.json", "--html", "parent.html"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert ended.stdout.rstrip().endswith("1 []")


def test_the_plugin_imports_nothing_heavy():
    code = "import sys, scratch_transformer.pytest_plugin; sys.exit('torch' in sys.modules or 'rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_adapter_builds_what_cannot_be_built(folder):
    (folder / "adapters.py").write_text(
        "from unbuildable import LayerNorm as Unbuildable\n\n\n"
        "def LayerNorm(weights, x):\n"
        "    norm = Unbuildable.__new__(Unbuildable)\n"
        "    super(Unbuildable, norm).__init__()\n"
        "    norm.eps, norm.weight, norm.bias = 1e-5, *(weights[name] for name in ('weight', 'bias'))\n"
        "    return norm.forward(x)\n"
    )
    result = run(folder / "unbuildable.py", "--adapter", folder / "adapters.py")
    assert "adapters.py:4" in result.stdout and "matches the builtin" in result.stdout, result.output


@pytest.mark.parametrize(
    "name, status, text",
    [
        ("right", 2, "raise ValueError('no norm')"),
        ("right", 2, "def LayerNorm(weights, x):\n    return zebra(x)"),
        ("wrong", 1, "def LayerNorm(weights, x):\n    return zebra(x)"),
    ],
)
@pytest.mark.long
def test_an_adapter_that_fails_is_not_passed_over(folder, name, status, text):
    (folder / "failing.py").write_text(f"{text}\n")
    result = run(folder / f"{name}.py", "--adapter", folder / "failing.py")
    assert result.exit_code == status and "failing.py" in result.stdout, result.output
