"""What turns a cache on: a flag that forward takes, an attribute, a word; by its name, or by what is done with it."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Iterator, Sequence
from typing import Any

from torch import nn

from scratch_transformer.kit.definitions import is_own, nodes_of
from scratch_transformer.kit.resolve.names.words import plain
from scratch_transformer.kit.syntax import is_of_self, is_stored, is_text, last_name

SWITCH = re.compile(r"^usecache$|^usekvcache$|^inference$|^isinfer(ence)?$|^kvcache$|^usecaching$|^decode$|^caching$")
KEPT = re.compile(r"cache|past|keyhistory|kept")
JOINS = re.compile(r"\bcat$|\bconcat(enate)?$")
Nodes = Sequence[ast.AST]


def of_forward(made: nn.Module, parameters: list[inspect.Parameter]) -> dict[str, bool]:
    """The flags of a forward with which keys and values are kept, True each."""
    used = {name for part in made.modules() for name in _used(part)}
    left = [p.name for p in parameters if p.default is False or p.default is p.empty]
    return {name: True for name in left if SWITCH.search(plain(name)) or name in used}


def are_used(made: nn.Module) -> bool:
    """Whether a part of it joins what comes with what it has kept, where a flag says so."""
    return any(_used(part) for part in made.modules())


def turn_on(made: nn.Module) -> bool:
    """Puts its cache to use where its constructor was told to do without: Attention(d_model, heads, use_cache).

    Also by a word, where the code asks for it: self.mode == "inference". Whether there is such a switch.
    """
    found = False
    for part in made.modules():
        used = _used(part)
        off = [name for name, value in vars(part).items() if value is False]
        flags: dict[str, Any] = {n: True for n in off if SWITCH.search(plain(n)) or _has(part, used.get(n))}
        words = {n: word for n, word in _words_for(type(part)) if isinstance(vars(part).get(n), str)}
        for name, value in (flags | words).items():
            setattr(part, name, value)
            found = True
    return found


def _used(part: nn.Module) -> dict[str, frozenset[str]]:
    cls: Any = type(part)
    return _used_in(cls) if is_own(cls) else {}


@functools.lru_cache(maxsize=256)
def _used_in(cls: type) -> dict[str, frozenset[str]]:
    """The flags of a class under which it joins what comes with attributes that it sets there: flag -> these."""
    found = dict[str, frozenset[str]]()
    for node in nodes_of(cls):
        if isinstance(node, ast.If) and (kept := _kept([one for line in node.body for one in ast.walk(line)])):
            found |= dict.fromkeys(_asked(node.test), kept)
    return found


def _asked(test: ast.expr) -> Iterator[str]:
    """The flags that all must be set: flag and self.on and x is None asks for two."""
    for one in test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]:
        if isinstance(one, ast.Name) or is_of_self(one):
            yield last_name(one)


def _kept(nodes: Nodes) -> frozenset[str]:
    """The attributes that some lines both set and read, where they join tensors, or write into those attributes.

    What comes of it is given a name there: what is only collected has no effect.
    """
    into = [one.value for one in nodes if isinstance(one, ast.Subscript) and isinstance(one.ctx, ast.Store)]
    own = [one for one in nodes if is_of_self(one)]
    named = [inside for one in nodes if isinstance(one, ast.Assign) and _names(one) for inside in ast.walk(one.value)]
    joins = any(isinstance(one, ast.Call) and JOINS.search(ast.unparse(one.func)) for one in nodes)
    rows = {one.attr for one in own if one in into}
    whole = {one.attr for one in own if joins and isinstance(one.ctx, ast.Store)}
    read = {one.attr for one in own if isinstance(one.ctx, ast.Load) and one in named}
    return frozenset((rows | whole) & read)


def _names(assigned: ast.Assign) -> bool:
    """Whether a line gives a name to something, and does not only set an attribute."""
    return any(is_stored(one)
               for target in assigned.targets for one in ast.walk(target))  # fmt: skip


def _has(part: nn.Module, attributes: frozenset[str] | None) -> bool:
    """Whether what is kept under a flag has its place, though the flag was not set when the part was built."""
    return bool(attributes) and all(hasattr(part, name) for name in attributes or ())


def _words_for(cls: type) -> Iterator[tuple[str, str]]:
    """The attributes with which a class of the learner's asks for its cache, and the words with which it is used."""
    for node in nodes_of(cls) if is_own(cls) else ():
        if not isinstance(node, (ast.If, ast.IfExp)) or not isinstance(node.test, ast.Compare):
            continue
        asked, word = node.test.left, node.test.comparators[0]
        if not is_of_self(asked) or not is_text(word):
            continue
        then = node.orelse if isinstance(node.test.ops[0], ast.NotEq) else node.body
        inside = [one for branch in (then if isinstance(then, list) else [then]) for one in ast.walk(branch)]
        if any(isinstance(one, ast.Attribute) and KEPT.search(plain(one.attr)) for one in inside):
            yield asked.attr, word.value
