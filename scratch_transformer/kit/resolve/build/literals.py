"""Values that a learner's own code gives by name: build_model(mode="sum"), CONFIG = {"rope_base": 10000}, BASE = 1e4.

Also what only runs as a program says it: calls under `if __name__ == "__main__"`, defaults of command line options.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import re
from collections.abc import Collection, Iterator
from typing import Any

from scratch_transformer.kit.definitions import file_of, text_of_file
from scratch_transformer.kit.resolve.names.words import plain
from scratch_transformer.kit.syntax import last_name, nodes_in, tree_from

OF_TORCH = re.compile(r"(torch|nn|F)\.[\w.]+$")
"""What one layer of torch's is told, nn.Linear(…, bias=False), is said of that layer alone."""


def literal_of(thing: Any, name: str) -> list[Any]:
    """What a class's file gives for a parameter: in calls of the class first, then anywhere; [] if nothing."""
    path = file_of(thing)
    values = _values(path, len(linecache.getlines(path)))
    own = [value for called, key, value in values if called == getattr(thing, "__name__", "") and key == plain(name)]
    place = _place(thing, name)
    own += [value for called, key, value in values if called == getattr(thing, "__name__", "") and key == place]
    return [*own, *(value for called, key, value in values if not called and key == plain(name))]


def is_section(thing: Any, name: str) -> bool:
    """Whether the file of a class reads something from what has this name: config.MODEL.N_HEADS."""
    text = text_of_file(file_of(thing))
    return re.search(rf"""[.'"]{name}['"]?\]?[.\[]""", text) is not None


def is_of_samples(thing: Any, name: str) -> bool:
    """Whether the file of a class takes three dimensions of what has this name: positions[:, :length, :]."""
    text = text_of_file(file_of(thing))
    return re.search(rf"\b{name}\s*\[\s*:\s*,[^\],]*(\(\d\))?,", text) is not None


def is_read_within(thing: Any, name: str, holders: Collection[str]) -> bool:
    """Whether the file of a class reads something from it, of a config: conf.tokenizer.vocabulary_size."""
    text = text_of_file(file_of(thing))
    read = re.findall(rf"(\w+)\.{name}\.([a-z_]\w*)", text)
    return any(plain(holder) in holders and not hasattr(str, inner) for holder, inner in read)


def is_looked_into(thing: Any, name: str) -> bool:
    """Whether the file of a class takes something by a text from an attribute of this name: config.model["dim"]."""
    path = file_of(thing)
    return name in _looked_into(path, len(linecache.getlines(path)))


@functools.lru_cache(maxsize=64)
def _looked_into(path: str, size: int) -> frozenset[str]:
    return frozenset(re.findall(r"""\.(\w+)\[f?['"]""", text_of_file(path)))


def _place(thing: Any, name: str) -> str:
    """The number of a parameter, as text."""
    try:
        names = [n for n in inspect.signature(thing).parameters if n != "self"]
    except (TypeError, ValueError):
        return ""
    return str(names.index(name)) if name in names else ""


@functools.lru_cache(maxsize=64)
def _values(path: str, size: int) -> tuple[tuple[str, str, Any], ...]:
    """(class or function that is called or "", plain name of the parameter or its place, value)."""
    return tuple(found for node in nodes_in(tree_from(text_of_file(path)), ast.AST) for found in _of(node))


def _of(node: ast.AST) -> Iterator[tuple[str, str, Any]]:
    if isinstance(node, ast.Call):
        called = last_name(node.func)
        named = {word.arg: word.value for word in node.keywords if word.arg}
        if called == "add_argument" and node.args and "default" in named:
            yield from _literal("", str(getattr(node.args[0], "value", "")), named["default"])
        for place, value in enumerate(node.args):
            yield from _literal(called, str(place), value)
        for name, value in named.items():
            yield from _literal(called, name, value)
            if not OF_TORCH.match(ast.unparse(node.func)):
                yield from _literal("", name, value)
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant):
                yield from _literal("", str(key.value), value)
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], (ast.Name, ast.Attribute)):
        target = node.targets[0]
        yield from _literal("", target.id if isinstance(target, ast.Name) else target.attr, node.value)
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        yield from _literal("", node.target.id, node.value)


def _literal(called: str, name: str, node: ast.expr) -> Iterator[tuple[str, str, Any]]:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return
    if value is not None:
        yield called, plain(name), value
