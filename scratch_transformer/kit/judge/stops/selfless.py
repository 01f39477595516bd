"""B26: a method without self: def forward(x), in which the module itself is x."""

from __future__ import annotations

import inspect
import re
from typing import Any

from scratch_transformer.kit.definitions import is_module_class, is_of_torch, lines_of
from scratch_transformer.kit.judge.frames import STOPS_AT
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.construction import OF_SELF

CALLED = ("__init__", "forward")
INPUTS = re.compile(
    r"x\w?|y|z|[qkv]|inputs?|query|tokens?|ids|src|tgt|seq\w*|emb\w*|d_model|d_k|d_ff|\w*(dim|size)|config|heads"
)
"""What is nobody's name for the module itself."""


def finding(thing: Any) -> Finding | None:
    """B26; None for what has its self in both."""
    members = vars(thing) if is_module_class(thing) else {}
    methods = [members[name] for name in CALLED if inspect.isfunction(members.get(name))]
    lacking = [method for method in methods if not is_of_torch(method) and _lacks(method)]
    if not lacking:
        return None
    names = " and ".join(method.__name__ for method in lacking)
    lines, _ = lines_of(lacking[0])
    head = next((line.partition("#")[0].strip() for line in lines if line.lstrip().startswith("def ")), "")
    said = f"{names} of {thing.__name__} {'has' if len(lacking) == 1 else 'have'} no self, and Python gives it first."
    return Finding(MISTAKES["B26"], f"{said} {STOPS_AT}{head}", fix=OF_SELF)


def _lacks(method: Any) -> bool:
    """Whether it takes nothing, or reads a self that it does not take, or takes for its first what is an input."""
    code = method.__code__
    if not code.co_argcount:
        return not code.co_flags & inspect.CO_VARARGS
    first = code.co_varnames[0]
    reads_it = "self" in code.co_names and "self" not in method.__globals__
    return first != "self" and (reads_it or INPUTS.fullmatch(first) is not None)
