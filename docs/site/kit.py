"""What the kit says about a file, and the page that it writes, made while the site is built."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLE = "docs/examples/my_transformer.py"

# As wide as a block of code; and the page links to the catalogue beside it.
ENVIRONMENT = {**os.environ, "COLUMNS": "84", "SCRATCH_TRANSFORMER_DOCS": "."}


def setup(app):
    """The page of a check lies beside the others."""
    app.connect("builder-inited", write)


def write(app):
    """checked.html."""
    if app.builder.format == "html":
        Path(app.outdir).mkdir(parents=True, exist_ok=True)
        run("--html", str(Path(app.outdir) / "checked.html"))


def run(*options):
    """What `scratch-transformer check` prints of the example."""
    command = [sys.executable, "-m", "scratch_transformer", "check", EXAMPLE, *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=ENVIRONMENT)
    if done.returncode != 1:  # it has mistakes
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def printed():
    """The same as a block of text."""
    return f"```text\n{run().strip()}\n```"
