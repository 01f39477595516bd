"""B26: a class that Python cannot define, as its base is called and so an object: class Attention(nn.Module())."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from typing import Any

from scratch_transformer.kit.definitions import meant_by
from scratch_transformer.kit.judge.frames import STOPS_AT
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES


def finding(node: ast.ClassDef, text: str, namespace: Mapping[str, Any]) -> tuple[Finding, int, list[str]] | None:
    """B26, its line, and what should stand there; None for a class whose bases are none of that.

    text: of the file. namespace: what it had defined before.
    """
    called = next((base for base in node.bases if isinstance(base, ast.Call) and _makes_one(base, namespace)), None)
    if called is None:
        return None
    name, line = ast.unparse(called.func), text.splitlines()[called.lineno - 1]
    said = (
        f"{node.name} cannot be defined: its base is written {ast.unparse(called)}, and the brackets make an object of "
        f"{name}, where Python needs the class. It is {name}, without brackets. {STOPS_AT}{line.strip()}"
    )
    written = ast.get_source_segment(text, called) or ""
    return Finding(MISTAKES["B26"], said), called.lineno, [line.replace(written, name)] if written in line else []


def _makes_one(call: ast.Call, namespace: Mapping[str, Any]) -> bool:
    """Whether what is called is a class, which makes an object: namedtuple(…) and what else makes classes is none."""
    thing = meant_by(ast.unparse(call.func), namespace)
    return inspect.isclass(thing) and not issubclass(thing, type)
