"""Where torch surprises: a paragraph for each test that records it, and the tests run while the site is built."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import torch

from docs.site.catalogue import plain

ROOT = Path(__file__).parents[2]
FILES = sorted(ROOT.glob("reference_tests/test_torch_surprises*.py"))
HEADING = re.compile(r"^# ---- (.*?) ----$", re.M)


def run():
    """How many tests passed, on which torch. Raises if one fails: the page would say what is not true."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, FILES)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"torch surprises in another way:\n{done.stdout}{done.stderr}")
    passed = re.search(r"(\d+) passed", done.stdout)[1]
    return f"Each is a test, and all {passed} passed when this page was built, with torch {torch.__version__}."


def page():
    """All of them under the headings of the files."""
    made = []
    for file in FILES:
        source = file.read_text(encoding="utf-8")
        headings = [(source.count("\n", 0, match.start()) + 1, match[1]) for match in HEADING.finditer(source)]
        for node in ast.parse(source).body:
            if not (isinstance(node, ast.FunctionDef) and node.name.startswith("test_")):
                continue
            while headings and headings[0][0] < node.lineno:
                made.append(f"## {headings.pop(0)[1]}\n")
            made.append(entry(node, source, file.relative_to(ROOT)))
    return "\n".join(made)


def entry(node, source, file):
    """A test's name as a heading, its docstring, and its code folded."""
    title = (
        node.name.removeprefix("test_").replace("_", " ").replace("torchs", "torch's").replace("encoders", "encoder's")
    )
    words = plain(" ".join(ast.get_docstring(node).split()))
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    code = "\n".join(source.splitlines()[first - 1 : node.end_lineno])
    return (
        f"### {title[0].upper()}{title[1:]}\n\n{words}\n\n"
        f"::::{{dropdown}} The test, in {file}\n```python\n{code}\n```\n::::\n"
    )
