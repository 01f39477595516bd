"""Self-contained HTML pages: every report has its own template and extends the skeleton beside this file."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2

ROOT = Path(__file__).parents[2]
DISTRIBUTION = "scratch-transformer"


def render(package: str, filters: Mapping[str, Any], **values: Any) -> str:
    """The page of `report.html` in a package. filters: functions, for {{ x|name }} and {{ name(x) }}.

    Raises:
        jinja2.UndefinedError: the template uses something that is neither a value nor a filter.
    """
    loader = jinja2.ChoiceLoader([jinja2.PackageLoader(package, "."), jinja2.PackageLoader(__name__, ".")])
    templates = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    templates.filters |= filters
    templates.globals |= {"documentation": documentation, **filters}
    return templates.get_template("report.html").render(**values)


def documentation(page: str) -> str:
    """The address of a page of the documentation, such as "mistakes/LN1.html"; "" where nobody knows it.

    The first of: below the address in the environment's SCRATCH_TRANSFORMER_DOCS; below the one in the package's
    metadata; in the site that was built in this checkout.
    """
    built = ROOT / "docs" / "_build" / "html" / page
    address = os.environ.get("SCRATCH_TRANSFORMER_DOCS") or _published()
    if address:
        return f"{address.rstrip('/')}/{page}"
    return built.as_uri() if built.is_file() else ""


def _published() -> str:
    """The project's documentation, from the package's metadata."""
    try:
        urls = importlib.metadata.metadata(DISTRIBUTION).get_all("Project-URL") or []
    except importlib.metadata.PackageNotFoundError:  # run from a source tree
        return ""
    named = dict(url.split(", ", 1) for url in urls)
    return str(named.get("Documentation", ""))
