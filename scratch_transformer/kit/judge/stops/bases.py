"""B26: a class that Python cannot define, as its base is called and so an object, class Attention(nn.Module()), or is
not in torch, class Attention(torch.Module).
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

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
        return _not_there(node, text, namespace)
    name, line = ast.unparse(called.func), text.splitlines()[called.lineno - 1]
    said = (
        f"{node.name} cannot be defined: its base is written {ast.unparse(called)}, and the brackets make an object of "
        f"{name}, where Python needs the class. It is {name}, without brackets. {STOPS_AT}{line.strip()}"
    )
    written = ast.get_source_segment(text, called) or ""
    return Finding(MISTAKES["B26"], said), called.lineno, [line.replace(written, name)] if written in line else []


def _not_there(node: ast.ClassDef, text: str, namespace: Mapping[str, Any]) -> tuple[Finding, int, list[str]] | None:
    """The same of torch.Module, which torch.nn has under this name and torch has not."""
    for base in node.bases:
        of = meant_by(ast.unparse(base.value), namespace) if isinstance(base, ast.Attribute) else None
        if (
            not isinstance(base, ast.Attribute)
            or of is not torch
            or hasattr(of, base.attr)
            or not hasattr(nn, base.attr)
        ):
            continue
        line, written = text.splitlines()[base.lineno - 1], ast.unparse(base)
        named = next((name for name, value in namespace.items() if value is nn), "torch.nn")
        right = f"{named}.{base.attr}"
        said = (
            f"{node.name} cannot be defined: {written} is its base, which torch does not have. {STOPS_AT}{line.strip()}"
        )
        fix = f"{right}, which torch has, in place of {written}."
        return Finding(MISTAKES["B26"], said, fix=fix), base.lineno, [line.replace(written, right)] * (written in line)
    return None


def _makes_one(call: ast.Call, namespace: Mapping[str, Any]) -> bool:
    """Whether what is called is a class, which makes an object: namedtuple(…) and what else makes classes is none."""
    thing = meant_by(ast.unparse(call.func), namespace)
    return inspect.isclass(thing) and not issubclass(thing, type)
