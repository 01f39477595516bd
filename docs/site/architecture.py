"""The architecture of the repository, drawn from the contract of imports in setup.cfg and the docstrings."""

import ast
import configparser
import re
from pathlib import Path

from docs.site.catalogue import plain
from docs.site.drawing import figure, line, rect, text
from scratch_transformer import cli

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "scratch_transformer"
WIDTH, ROW = 680, 46


def layers():
    """The layers from the top, each a list of names: `tox -e lint` fails where a file imports from above."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    lines = config["importlinter:contract:layers"]["layers"].split("\n")
    found = [[name.strip(" ()") for name in line.split("|")] for line in lines if line.strip()]
    return [[name for name in names if place(name)] for names in found if any(map(place, names))]


def place(name):
    """The file or folder of a layer; None where it is yet to come."""
    return next((path for path in (PACKAGE / name, PACKAGE / f"{name}.py") if path.exists()), None)


def drawing():
    """Boxes in rows: a file imports only from the rows below its own."""
    shapes, rows = [], layers()
    for n, names in enumerate(rows):
        width = (WIDTH - 30) / len(names)
        for m, name in enumerate(names):
            shapes.append(rect(m * width, n * ROW + 2, width - 8, ROW - 12))
            shapes.append(text(m * width + (width - 8) / 2, n * ROW + 24, name, "middle"))
    height = len(rows) * ROW
    shapes.append(line((WIDTH - 18, 6), (WIDTH - 18, height - 14), arrow=True))
    return figure(
        WIDTH, height, shapes, "A file imports only from the rows below its own, never from the one beside it."
    )


def table():
    """Every room: what its first sentence says, how many files and lines."""
    rows = ["| | what it is | files | lines |", "| --- | --- | ---: | ---: |"]
    for name in (name for names in reversed(layers()) for name in names):
        path = place(name)
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        lines = sum(file.read_text(encoding="utf-8").count("\n") for file in files)
        shown = f"{name}/" if path.is_dir() else f"{name}.py"
        rows.append(f"| `{shown}` | {plain(summary(path))} | {len(files)} | {lines:,} |")
    return "\n".join(rows)


def summary(path):
    """The first sentence of a file's or package's docstring."""
    file = path / "__init__.py" if path.is_dir() else path
    words = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) if file.exists() else None
    first = (words or "").split("\n\n")[0].replace("\n", " ")
    return re.split(r"(?<!al)\.\s", first)[0].translate(str.maketrans("", "", "`*")).rstrip(".") + "."


def commands():
    """Every subcommand with its first sentence, as `--help` has them."""
    names = cli.main.list_commands(None)
    return "\n".join(f"- `scratch-transformer {name}`: {plain(cli.summary(name))}" for name in names)
