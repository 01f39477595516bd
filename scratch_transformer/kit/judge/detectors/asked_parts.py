"""B26 of a flag that _init_weights asks its parts for, hasattr(module, "init_flat"), and that nothing sets."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch import nn

from scratch_transformer.kit.definitions import file_of, is_own, line_at, text_of_file, tree_of
from scratch_transformer.kit.judge import neighbours
from scratch_transformer.kit.judge.frames import DONE_AT
from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import Session
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.construction import ASKED_IN_VAIN, DOES_ASK_IN_VAIN

OF_TORCH = {name for one in vars(nn).values() if isinstance(one, type) for name in getattr(one, "__constants__", ())}
OF_TORCH |= {"weight", "bias"}
"""What torch's own parts have, which need not be among these."""
ALIKE = 0.8
"""How much of a flag's name one that is set must have."""
SET = re.compile(r"\.(\w+)\s*(?::[^=\n]+)?=(?!=)|setattr\([^,\n]+,\s*['\"](\w+)['\"]|register_\w+\(\s*['\"](\w+)['\"]")

SETS_ANY = re.compile(r"setattr\([^,\n]+,\s*[^'\"\s]")
"""What may set a flag of any name."""


def flag_in_vain(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """The first flag that is set nowhere, in its file nor beside it, and that no part of it has."""
    module = session.candidate.module
    if best is None or module is None or not is_own(type(module)):
        return
    cls: Any = type(module)
    path = file_of(cls)
    texts = [text_of_file(path), *(neighbours.codes(Path(path)) if path else ())]
    stored = {name for text in texts for names in SET.findall(text) for name in names if name}
    for method, node, name in _asked(cls) if not any(map(SETS_ANY.search, texts)) else ():
        is_there = name in OF_TORCH or name in stored or any(hasattr(part, name) for part in module.modules())
        if is_there or any(re.search(rf"^\s*(class {name}|{name}\s*[:=])", text, re.M) for text in texts):
            continue
        meant = next(iter(difflib.get_close_matches(name, sorted(stored), 1, ALIKE)), "")
        fix = f"{meant}, which is set, in place of {name}, if that is what is meant." if meant else ""
        line = line_at(cls, node)
        said = f"Its {method} asks its parts for {name}, which nothing sets. {DONE_AT}{line}"
        yield Finding(MISTAKES["B26"], said, ASKED_IN_VAIN, does=DOES_ASK_IN_VAIN, fix=fix)
        return


def _asked(cls: Any) -> Iterator[tuple[str, ast.Call, str]]:
    """The flags that methods which fill weights ask of what they are given; their names, and where."""
    methods = [one for one in getattr(tree_of(cls), "body", ()) if isinstance(one, ast.FunctionDef)]
    for method in (one for one in methods if "init" in one.name and one.name != "__init__"):
        given = {one.arg for one in method.args.args} - {"self"}
        for node in ast.walk(method):
            args = node.args if isinstance(node, ast.Call) and ast.unparse(node.func) in ("hasattr", "getattr") else []
            name = args[1].value if len(args) > 1 and isinstance(args[1], ast.Constant) else None
            if isinstance(node, ast.Call) and isinstance(name, str) and ast.unparse(args[0]) in given:
                yield method.name, node, name


ASKED_PARTS = ((("B26",), flag_in_vain),)
