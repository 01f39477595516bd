"""Files as tutorials print them: a line that is no Python is left out, and names that nobody imported are supplied."""

from __future__ import annotations

import ast
import builtins
import itertools
import re
import symtable
import types
import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from scratch_transformer.kit.discover.target import Source

MOST_REPAIRS = 20
ASSUMED = {
    "torch": "import torch",
    "nn": "import torch.nn as nn",
    "F": "import torch.nn.functional as F",
    "optim": "import torch.optim as optim",
    "Tensor": "from torch import Tensor",
    "Variable": "from torch.autograd import Variable",
    "Dataset": "from torch.utils.data import Dataset",
    "DataLoader": "from torch.utils.data import DataLoader",
    "np": "import numpy as np",
    "numpy": "import numpy",
    "math": "import math",
    "copy": "import copy",
    "random": "import random",
    "time": "import time",
    "os": "import os",
    "partial": "from functools import partial",
    "dataclass": "from dataclasses import dataclass",
    "Path": "from pathlib import Path",
    **{n: f"from typing import {n}" for n in ("Any", "Callable", "Dict", "List", "Optional", "Tuple", "Type", "Union")},
}
IMPORT = re.compile(r"^(\s*(?:import|from)\s+[\w.]+(?:\s+import\s+[\w, ]*\w)?(?:\s+as\s+\w+)?)\s*(?=[^\w\s])")
BARE = re.compile(r"expected an indented block after (?:function|class) definition on line (\d+)")
NEXT = re.compile(r"(async )?(def|class)\b|@")
"""How a function or a class begins."""
TOP = re.compile(r"^[^\s#)\]}]")


def repaired(source: Source) -> tuple[Source, list[str]]:
    """The source without the lines that Python cannot read, and sentences that say which. Line numbers stay the same.

    The source as it is, and no sentences, if it can be read or if nothing of it can be saved.
    """
    lines = source.text.lstrip("\ufeff").splitlines()
    seen: set[int] = set()
    sentences: list[str] = []
    for _ in range(MOST_REPAIRS):
        error = _error("\n".join(lines) + "\n")
        if error is None:
            return replace(source, text="\n".join(lines) + "\n"), sentences
        number = min(max(error.lineno or 1, 1), len(lines))
        if bare := _without_body(lines, error):
            first, own, end = bare
            said = f"Python cannot read line {source.where(own + 1)} (it has no body, and is left out)"
            sentences.append(f"{said}: {lines[own].strip()[:80]!r}")
            lines[first:end] = [""] * (end - first)
            continue
        start, end = _statement(lines, number)
        if start in seen:
            sentences.append(_without(lines, start, end, source))
            lines[start:end] = [""] * (end - start)
            continue
        seen.add(start)
        text = lines[number - 1]
        sentences.append(f"Python cannot read line {source.where(number)} ({error.msg}): {text.strip()[:80]!r}")
        lines[number - 1] = _mended(text)
    return source, []


def _error(text: str) -> SyntaxError | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except SyntaxError as error:
        return error
    except ValueError as error:  # a null byte, in Python 3.10 and 3.11
        return SyntaxError(str(error))
    return None


def _statement(lines: list[str], number: int) -> tuple[int, int]:
    """The lines, from 0, of the top-level statement that holds a line: from one that is not indented to the next."""
    start = number - 1
    while start > 0 and not TOP.match(lines[start]):
        start -= 1
    end = number
    while end < len(lines) and not TOP.match(lines[end]):
        end += 1
    return start, end


def _without_body(lines: list[str], error: SyntaxError) -> tuple[int, int, int] | None:
    """Of a function or class of which there is the first line alone: from its decorators, its own line, to the end.

    None of what is followed by anything but another one in its place, or the end of what it is in: that is its body,
    indented too little.
    """
    found = BARE.search(error.msg or "")
    if found is None:
        return None
    own = int(found[1]) - 1
    start, indent = own, _indent(lines[own])
    while start > 0 and lines[start - 1].lstrip().startswith("@") and _indent(lines[start - 1]) == indent:
        start -= 1
    end = max(own + 1, min((error.lineno or 1) - 1, len(lines)))  # a header of several lines ends before that
    while end < len(lines) and not lines[end].split("#")[0].strip():
        end += 1
    after = lines[end] if end < len(lines) else ""
    is_next = _indent(after) < indent or NEXT.match(after.lstrip())
    return (start, own, end) if not after or is_next else None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _mended(line: str) -> str:
    """An import up to where it stops being one; for everything else a statement that does nothing."""
    found = IMPORT.match(line)
    if found and _error(found[1].strip()) is None:
        return found[1]
    return line[: len(line) - len(line.lstrip())] + "pass"


def _without(lines: list[str], start: int, end: int, source: Source) -> str:
    named = re.match(r"(?:async )?(?:def|class) (\w+)", lines[start])
    what = named[1] if named else f"what begins there, {lines[start].strip()[:60]!r},"
    return f"{what} ({source.where(start + 1)}) cannot be read and is left out"


def left_out(whole: str, read: str) -> str:
    """The lines of a text that are others, or empty, in what is read of it."""
    pairs = itertools.zip_longest(whole.lstrip("\ufeff").splitlines(), read.splitlines(), fillvalue="")
    return "\n".join(line for line, kept in pairs if line != kept)


# ---- Names that nobody imported ----


def assumed(source: Source) -> dict[str, str]:
    """Names that a source uses and neither defines nor imports, with the import that is meant; only usual ones."""
    used = _unbound(source)
    return {name: statement for name, statement in ASSUMED.items() if name in used}


def unbound(source: Source, module: types.ModuleType) -> list[str]:
    """Names that a source uses and that nothing in it defines or imports: a star import may bring them."""
    return sorted(_unbound(source) - set(vars(module)))


def _unbound(source: Source) -> set[str]:
    table = symtable.symtable(source.text.lstrip("\ufeff"), source.path, "exec")
    bound = {s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_imported() or s.is_namespace()}
    return set(_globals(table)) - bound - set(vars(builtins))


def _globals(table: symtable.SymbolTable) -> Iterable[str]:
    is_top = table.get_type() == "module"
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (is_top or symbol.is_global()):
            yield symbol.get_name()
    for child in table.get_children():
        yield from _globals(child)


def supply(namespace: dict[str, Any], statements: Iterable[str]) -> list[str]:
    """Runs imports in a namespace. Returns those that could be run."""
    done = []
    for statement in statements:
        try:
            exec(statement, namespace)
        except ImportError:
            continue
        done.append(statement)
    return done
