"""The tiny model that comes with the package, running in a page of its own: `scratch-transformer view`."""

import subprocess
import sys
from pathlib import Path

SENTENCE = "four hundred and twenty-one"


def setup(app):
    """The page lies beside the others."""
    app.connect("builder-inited", write)


def write(app):
    """view.html."""
    if app.builder.format != "html":
        return
    target = Path(app.outdir) / "view.html"
    target.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "scratch_transformer", "view", SENTENCE, "--out", str(target)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


def frame():
    """The page within a page."""
    return (
        '```{raw} html\n<figure class="live"><iframe src="view.html" loading="lazy" '
        'title="the tiny model, running"></iframe>'
        f"<figcaption>A Transformer of this package translates “{SENTENCE}”, and shows every number on the way. "
        '<a href="view.html">Open it on its own page</a>, and type a sentence of yours.</figcaption></figure>\n```\n'
    )
