"""Pieces of this package's source, with its docstring and the lines that compute something marked."""

from __future__ import annotations

import ast
import importlib
import inspect
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def listing(path: str) -> dict[str, Any]:
    """Of "scratch_transformer.model:FeedForwardBlock.forward": file, line, docstring, plain and coloured lines.

    The docstring is that of the class where a method has none.
    """
    module, _, name = path.partition(":")
    found: list[Any] = [importlib.import_module(module)]
    for part in name.split("."):
        found.append(getattr(found[-1], part))
    function = inspect.unwrap(found[-1])
    lines, first = inspect.getsourcelines(function)
    kept, offset = _without_docstring(textwrap.dedent("".join(lines)).splitlines())
    documented = function if function.__doc__ else found[-2]
    return {
        "name": name,
        "file": "scratch_transformer/" + Path(inspect.getsourcefile(function) or "").relative_to(ROOT).as_posix(),
        "line": first + offset,
        "doc": inspect.getdoc(documented) or "",
        "text": kept,
        "html": coloured("\n".join(kept)),
    }


def marked(source: dict[str, Any], fragment: str) -> list[int]:
    """The numbers of the lines, from 0, with this fragment.

    Raises:
        LookupError: there is none: the code has changed, and the fragment must.
    """
    hits = [number for number, line in enumerate(source["text"]) if fragment in line]
    if not hits:
        raise LookupError(f"{source['name']} in {source['file']} has no line with {fragment!r}")
    return hits


def coloured(code: str) -> list[str]:
    """Python's lines as HTML, with Pygments' classes."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    lines: list[str] = highlight(code, PythonLexer(stripnl=False), HtmlFormatter(nowrap=True)).splitlines()
    return lines


def _without_docstring(lines: list[str]) -> tuple[list[str], int]:
    """The lines without decorators and the docstring, and how many came before the first."""
    node: Any = ast.parse("\n".join(lines)).body[0]
    start = node.lineno - 1
    if ast.get_docstring(node) is None:
        return lines[start:], start
    doc = node.body[0]
    return lines[start : doc.lineno - 1] + lines[doc.end_lineno :], start
