"""Self-contained HTML pages: every report has its own template and extends the skeleton beside this file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jinja2


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
    templates.globals |= filters
    return templates.get_template("report.html").render(**values)
