"""Where a model calls what takes a mask, and hands it none."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from torch import nn

from scratch_transformer.kit.definitions import is_of_torch, nodes_of, tree_of
from scratch_transformer.kit.syntax import assignments, method_of, nodes_in

MASK = re.compile(r"(?i)mask|causal|tril|triu|future|ahead")
NOT_OF_TARGETS = re.compile(r"(?i)enc|src|source|cross|mem")
OWN = (
    "Hand it a mask in the form that it takes: torch.tril(torch.ones(T, T)) is 1 where attending is allowed. Together "
    "with that of the padding, if there is one."
)
OF_PADDING = (
    "Make a mask of the padding, ids != pad, and hand it on here in the form it takes: (ids != pad)[:, None, None] "
    "for scores (batch, heads, queries, keys). PyTorch's own encoder takes src_key_padding_mask=ids == pad."
)
OF_TORCH = (
    "Hand it a mask, which is True in PyTorch's own modules where attending is blocked: "
    "torch.ones(T, T).triu(1).bool() as {}."
)


class Call(NamedTuple):
    """definition: the class. name: of what is called there, and of the class. line: from 0, of it. fix: in words."""

    definition: Any
    name: str
    line: int
    fix: str
    has_mask: bool


def call(definitions: Iterable[Any]) -> Call | None:
    """The first without a mask, in what is nearest to the whole; of an encoder only where nothing else takes one."""
    classes = [one for one in definitions if isinstance(one, type)]
    found = [one for cls in classes for one in _calls(cls, classes)]
    meant = [one for one in found if not NOT_OF_TARGETS.search(one.name)] or found
    return next((one for one in meant if not one.has_mask), None)


def _calls(cls: type, classes: Iterable[type]) -> Iterator[Call]:
    """What is called in a forward and takes a mask."""
    made = {ast.unparse(target): value for target, value in assignments(nodes_of(cls))}
    forward = method_of(tree_of(cls), "forward")
    loops = {ast.unparse(node.target): ast.unparse(node.iter) for node in nodes_in(forward, ast.For)}
    for node in nodes_in(forward, ast.Call):
        name = ast.unparse(node.func)
        name = loops.get(name, name)
        parts = [part for part in _parts(made.get(name), classes) if _mask_of(part)]
        if parts:
            fix = OF_TORCH.format(_mask_of(parts[0])) if is_of_torch(parts[0]) else OWN
            has_mask = MASK.search(ast.unparse(node).partition("(")[2]) is not None
            yield Call(cls, f"{name} {cls.__name__}", node.lineno - 1, fix, has_mask)


def _parts(value: ast.expr | None, classes: Iterable[type]) -> list[type]:
    """The classes that an expression makes parts of: nn.ModuleList([Block(d) for _ in range(n)])."""
    called = [ast.unparse(n.func) for n in nodes_in(value, ast.Call)]
    own = {cls.__name__: cls for cls in classes}
    found = (own.get(name) or vars(nn).get(name.removeprefix("nn.").removeprefix("torch.nn.")) for name in called)
    return [cls for cls in found if isinstance(cls, type)]


def _mask_of(cls: type) -> str:
    """The parameter of a forward that a causal mask is for."""
    try:
        names = [name for name in inspect.signature(cls.forward).parameters if MASK.search(name)]  # type: ignore[attr-defined]
    except (AttributeError, TypeError, ValueError):
        return ""
    return next((n for n in names if n in ("tgt_mask", "attn_mask", "mask")), names[0] if names else "")
