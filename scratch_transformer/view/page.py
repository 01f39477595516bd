"""The page: one HTML file with everything in it."""

from __future__ import annotations

import json

import jinja2
from markupsafe import Markup

from scratch_transformer.translation.checkpoint import Run
from scratch_transformer.view import bundle
from scratch_transformer.view.payload import payload

DEFAULT = "four hundred and twenty-one"


def page(run: Run, sentence: str | None = None) -> str:
    """HTML in which a run's model translates; `sentence` is the one that comes with PyTorch's numbers.

    Raises:
        InputError: the model is too large for a page, or cannot read the sentence.
    """
    document = payload(run, default_sentence(run) if sentence is None else sentence)
    templates = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__ or "", "."), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    return templates.get_template("page.html").render(
        data=Markup(json.dumps(document, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")),
        script=Markup(bundle.script().replace("</", "<\\/")),
        style=Markup(bundle.style()),
        document=document,
        is_numbers=is_numbers(run),
    )


def default_sentence(run: Run) -> str:
    """For numbers in English one whose words change places; else the first held-out sentence."""
    return DEFAULT if is_numbers(run) else run.held_out()[0][0]


def is_numbers(run: Run) -> bool:
    """Whether the run translates numbers in English words."""
    data = run.config.data
    return data.tsv is None and data.source_file is None and data.hub is None and data.source == "en"
