"""Where to look for the line of a mistake: the forward of a class, all of it, functions; what is likeliest first."""

from __future__ import annotations

import ast
import contextlib
import inspect
import re
import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple

from scratch_transformer.kit.definitions import lines_of
from scratch_transformer.kit.mistakes.embedding import ATTENTION_ALONG_IT
from scratch_transformer.kit.report import kept, scales
from scratch_transformer.kit.syntax import nodes_in, tree_from

OF_ATTENTION = (
    "A1", "A2", "A4", "A8", "A10", "A11", "A12", "A13", "A14", "A15", "A16", "A17", "A18", "A19", "A21", "A23", "A28",
    "A25", "A29", "A38", "A40",
)  # fmt: skip
"""Mistakes that are made where attention is computed: the same words elsewhere mean something else."""
OF_LAYERS = ("A36", "B2", "B3", "B6", "B13", "B14", "B15", "B20", "B23", "B24", "B31")
"""Mistakes that are made where sublayers are put together."""
OF_NETWORKS = ("B7", "B16", "B17")
"""Mistakes that are made between two linear layers."""
IN_NORMS = ("LN4", "LN6", "LN13")
"""Mistakes with a norm's scale and shift."""
OF_DEVIATIONS = ("LN2", "LN9", "LN10", "LN14")
"""Mistakes with what a norm divides by: roots that others take are none of it."""
OF_POSITIONS = ("P1", "P2", "P3", "P4", "P6", "P8", "P9", "P10", "P14")
"""Mistakes that are made where the table of positions is made or read."""
MERGES = {("A23", "not transposed back"), ("A23", "features before tokens")}
"""Heads are split before they are merged, with the same words: the last line is meant."""
NETWORK = re.compile(r"(?i)feed|ffn|mlp|^pw?ff?")


class Room(NamedTuple):
    """Lines of code to look through, and the name of the class or function that they are of."""

    name: str
    file: str
    start: int
    lines: list[str]


def rooms_of(definition: Any) -> list[Room]:
    """The forward of a class, or what an optimizer or the like has in its place, and all of it; a function."""
    own = vars(definition) if isinstance(definition, type) else {}
    called = next((own[name] for name in ("forward", "step", "__call__", "encode") if name in own), None)
    found = []
    for part in filter(None, (called, definition)):
        with contextlib.suppress(OSError, TypeError):
            lines, start = lines_of(part)
            file = inspect.getsourcefile(inspect.unwrap(part)) or ""
            found.append(Room(definition.__name__, file, start, [line.rstrip("\n") for line in lines]))
    return found


def _is_a_class(room: Room) -> bool:
    """Sorts forwards and functions first."""
    return room.lines[0].lstrip().startswith("class ")


def _is_no_table(room: Room) -> bool:
    """Sorts what is called positions, or has a sine and a cosine, first."""
    code = "\n".join(room.lines)
    return "pos" not in room.name.lower() and not re.search(r"\bsin\((.|\n)*\bcos\(", code)


def _embeds_words(room: Room) -> bool:
    """Whether it makes the table of the words itself, or what may be that: none of positions."""
    code = "\n".join(room.lines)
    if "pos" in room.name.lower() and "tok" not in room.name.lower():  # EmbeddingWithPositions has both
        return re.search(r"(?i)\bEmbedding\(\w*vocab", code) is not None
    return re.search(r"\bEmbedding\(|(emb|tok)\w* *= *(nn\.)?Parameter\(", code) is not None


def _is_no_layer(room: Room) -> bool:
    """Sorts what has norms, and attention or other sublayers, first."""
    code = "\n".join(room.lines).lower()
    return not ("norm" in code and re.search("att|sublayer|mha", code))


def has_sublayers(definition: Any) -> bool:
    """Whether the code of a class, or a function, puts sublayers and norms together itself."""
    return not all(map(_is_no_layer, rooms_of(definition)))


def _is_no_norm(room: Room) -> bool:
    """Sorts norms first."""
    code = "\n".join(room.lines)
    return "norm" not in room.name.lower() and not re.search(r"rsqrt|\.(var|std)\(|layer_norm\(|rms_norm\(", code)


def _is_no_network(room: Room) -> tuple[bool, bool]:
    """Sorts what is called a feed-forward network first, then the layers that may have one of their own."""
    code = "\n".join(room.lines)
    return not NETWORK.search(room.name), not (code.count("Linear(") > 1 and "softmax" not in code)


def _is_elsewhere(room: Room) -> tuple[bool, bool]:
    """Sorts the softmax of a product first, then what is called attention."""
    code = "\n".join(room.lines)
    return not ("softmax" in code and scales.SCORES.search(code)), "att" not in room.name.lower()


ORDERS: dict[str, Callable[[Room], Any]] = {
    **dict.fromkeys(OF_ATTENTION, _is_elsewhere),
    **dict.fromkeys(OF_LAYERS, _is_no_layer),
    **dict.fromkeys(OF_NETWORKS, _is_no_network),
    **dict.fromkeys(IN_NORMS, _is_no_norm),
    **dict.fromkeys(OF_POSITIONS, _is_no_table),
    "B27": _is_a_class,  # a constructor cuts nothing
}
"""What comes first where a mistake is looked for, by its id."""


def in_order(id: str, form: str, rooms: list[Room]) -> list[Room]:
    """The rooms in which to look for a mistake, without those in which it cannot be where there are others."""
    if id in ORDERS and (id, form) not in MERGES and form != ATTENTION_ALONG_IT:
        rooms = sorted(rooms, key=ORDERS[id])
    if id == "A14":  # a map to scores has no bias either, and is none of attention's
        return [room for room in rooms if not all(_is_elsewhere(room))] or rooms
    if id in OF_DEVIATIONS:
        return [room for room in rooms if not _is_no_norm(room)] or rooms
    if id == "E2":
        words = {room.name for room in rooms if _embeds_words(room)}
        return sorted(rooms, key=lambda room: room.name not in words)  # what holds such a table adds positions, perhaps
    return sorted(rooms, key=lambda room: not kept.besides_the_width(room.lines)) if id == "A19" else rooms


def head_of(lines: list[str]) -> int:
    """The line behind the decorators."""
    return next((n for n, line in enumerate(lines) if line.lstrip().startswith(("def ", "class "))), 0)


def silent(lines: list[str]) -> set[int]:
    """The lines on which nothing is computed: heads of classes and functions, texts, if mask is not None."""
    tree = tree_of_lines(lines)
    if tree is None:
        return {0}
    found = {0}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found |= set(range(node.lineno - 1, node.body[0].lineno - 1))
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Compare) and node.body[0].lineno > node.lineno:
            found |= {node.lineno - 1} if isinstance(node.test.ops[0], (ast.Is, ast.IsNot)) else set()
    return found | texts(lines)


def texts(lines: list[str]) -> set[int]:
    """The lines of docstrings, which may have equations that look like code."""
    texts = [node for node in nodes_in(tree_of_lines(lines), ast.Expr) if isinstance(node.value, ast.Constant)]
    return {line for text in texts for line in range(text.lineno - 1, text.end_lineno or text.lineno)}


def tree_of_lines(lines: list[str]) -> ast.Module | None:
    """None if they cannot be read by themselves."""
    return tree_from(textwrap.dedent("\n".join(lines)))
