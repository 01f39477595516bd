"""Lines that mend a mistake which is seen elsewhere: where sizes are kept, and keys and numbers handed on."""

from __future__ import annotations

import ast
import difflib
import inspect
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from scratch_transformer.kit.definitions import lines_of, nodes_of, source_of
from scratch_transformer.kit.syntax import DEFINITIONS, is_stored, nodes_in

QUOTIENT = re.compile(r"self\.(\w+) ?//? ?self\.(\w+)")
KEY = "weight_decay"
LIKE = 0.8
"""Share of equal letters from which a key is weight_decay misspelt."""


class Line(NamedTuple):
    """A line from the head of a definition on, what is put there, and the fix, where it is another than usual."""

    number: int
    put: list[str]
    fix: str = ""


def of_heads(definition: Any) -> Line | None:
    """A19: behind the line on which a constructor keeps the last of two sizes that forward divides."""
    make, forward = (getattr(definition, "__dict__", {}).get(name) for name in ("__init__", "forward"))
    if not inspect.isfunction(make) or not inspect.isfunction(forward):
        return None
    divided = next((m for line in lines_of(forward)[0] if (m := QUOTIENT.search(line.partition("#")[0]))), None)
    lines, start = lines_of(make)
    kept = [
        n for n, line in enumerate(lines) if divided and re.match(rf"\s*self\.({divided[1]}|{divided[2]}) *=", line)
    ]
    if divided is None or len(kept) != 2 or besides_the_width(lines_of(definition)[0]):
        return None
    line, indent = lines[kept[1]].rstrip("\n"), re.match(r"\s*", lines[kept[1]])[0]  # type: ignore[index]
    size, heads = f"self.{divided[1]}", f"self.{divided[2]}"
    check = f"{indent}assert {size} % {heads} == 0, f'{{{heads}=}} must divide {{{size}=}}'"
    return Line(start + kept[1] - lines_of(definition)[1], [line, check])


HEADS = re.compile(r"(?i)(n|num|number_of)?_?heads?|h|n_?heads?")
WIDTH = re.compile(r"(?i)d_?model|(hidden|emb(ed(ding)?)?|model|input)_?(size|dim|width)|n_?emb(d|ed)?|dim|width")
"""What the number of heads and the width of tokens are called, of a constructor's parameters."""


def besides_the_width(lines: Sequence[str]) -> set[int]:
    """A19: the lines that divide something else, in code that divides the width by the heads; none in any other."""
    divided = [n for n, line in enumerate(lines) if "//" in line.partition("#")[0]]
    of_width = {n for n in divided if any(_is_of_heads(*two) for two in DIVISION.findall(lines[n]))}
    return {*divided} - of_width if of_width else set()


def _is_of_heads(width: str, heads: str) -> bool:
    return all(fits.fullmatch(name.rpartition(".")[2]) is not None for fits, name in ((WIDTH, width), (HEADS, heads)))


DIVISION = re.compile(r"([\w.]+) ?// ?([\w.]+)")


def of_told_heads(definition: Any) -> Line | None:
    """A19: in a constructor that divides nothing, behind the line on which it keeps the number of heads."""
    make = getattr(definition, "__dict__", {}).get("__init__")
    told = [*inspect.signature(make).parameters] if inspect.isfunction(make) else []
    heads = next((name for name in told if HEADS.fullmatch(name)), None)
    width = next((name for name in told if WIDTH.fullmatch(name)), None)
    lines, start = lines_of(make) if heads and width else ([], 0)
    for number, line in enumerate(lines):
        if re.match(rf"\s*self\.\w+ *= *{heads}\s*$", line.partition("#")[0]):
            indent = re.match(r"\s*", line)[0]  # type: ignore[index]
            check = f"{indent}assert {width} % {heads} == 0, f'{{{heads}=}} must divide {{{width}=}}'"
            return Line(start + number - lines_of(definition)[1], [line.rstrip("\n"), check])
    return None


def of_keys(definition: Any) -> Line | None:
    """O11: a key of a group of parameters that is weight_decay misspelt, which the optimizer takes and never reads."""
    for number, line in enumerate(lines_of(definition)[0]):
        for word in re.findall(r"""["']([\w ]+)["'] *:""", line.partition("#")[0]):
            plain = word.replace(" ", "")
            is_like = difflib.SequenceMatcher(None, plain.lower(), KEY).ratio() >= LIKE
            if word != KEY and is_like:
                fix = f'"{KEY}" in place of "{word}": an optimizer takes any key, and of this one it reads nothing.'
                return Line(number, [line.rstrip("\n").replace(word, KEY)], fix)
    return None


def of_no_mask(definition: Any) -> Line | None:
    """A24: forward takes a mask and hands on None in its place, attention(x, x, x, mask=None)."""
    forward = getattr(definition, "__dict__", {}).get("forward")
    taken = inspect.signature(forward).parameters if inspect.isfunction(forward) else {}
    lines, start = lines_of(forward) if taken else ([], 0)
    for number, line in enumerate(lines):
        found = re.search(r"\w\(.*\b(\w*mask\w*) ?= ?None(?= ?[,)])", line.partition("#")[0])
        if found and found[1] in taken and not line.lstrip().startswith("def "):
            put = re.sub(rf"\b{found[1]}( ?= ?)None(?= ?[,)])", rf"{found[1]}\1{found[1]}", line.rstrip("\n"))
            fix = f"{found[1]}={found[1]}: what forward is given, not None."
            return Line(start + number - lines_of(definition)[1], [put], fix)
    return None


def of_input(definition: Any) -> Line | None:
    """A12: where forward adds to what it is given, x += y, and no line before gives that name another value."""
    forward = getattr(definition, "__dict__", {}).get("forward")
    given = set(inspect.signature(forward).parameters) if inspect.isfunction(forward) else set()
    for node in nodes_of(forward) if given else ():
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and node.target.id in given:
            before = [one for one in nodes_of(forward, ast.Name) if is_stored(one, node.target.id)]
            if min(one.lineno for one in before) == node.lineno:
                number = lines_of(forward)[1] - lines_of(definition)[1] + node.lineno - 1
                line = lines_of(definition)[0][number].rstrip("\n")
                return Line(number, [re.sub(r"(\w+) (\+|\*)= ", r"\1 = \1 \2 ", line)])
    return None


def of_masks(definition: Any) -> Line | None:
    """A29: where the second of two masks is laid on the scores as they were, masked = scores.masked_fill(…) twice."""
    for body in (getattr(node, "body", None) for node in nodes_of(definition)):
        before: dict[tuple[str, str], bool] = {}
        for statement in body if isinstance(body, list) else ():
            laid = [(one, names) for one in nodes_in(statement, ast.Assign) if (names := _laid_on(one)) is not None]
            for one, names in laid if not isinstance(statement, DEFINITIONS) else ():
                if names in before:
                    line = lines_of(definition)[0][one.lineno - 1].rstrip("\n")
                    put = re.sub(rf"= *{names[1]}\b", f"= {names[0]}", line, count=1)
                    return Line(one.lineno - 1, [put] * (before[names] and put != line))
            before |= {names: one is statement for one, names in laid}  # in an if, there may be none before
            changed = _set_in(statement)
            before = {names: always for names, always in before.items() if names[1] not in changed}
    return None


def _laid_on(node: ast.Assign) -> tuple[str, str] | None:
    """What gets its value, and of what, where that is scores with a mask: masked = scores.masked_fill(…)."""
    value = node.value if len(node.targets) == 1 else None
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute) or value.func.attr != "masked_fill":
        return None
    names = ast.unparse(node.targets[0]), ast.unparse(value.func.value)
    return names if names[0] != names[1] and all(map(str.isidentifier, names)) else None


def _set_in(statement: ast.stmt) -> set[str]:
    """The names that a statement gives another value."""
    return {one.id for one in nodes_in(statement, ast.Name) if isinstance(one.ctx, ast.Store)}


def of_padding(definitions: Sequence[Any]) -> tuple[Any, Line] | None:
    """E5: where a number is handed to a part for its padding: TokenEmbedding(…, pad_id=1)."""
    if any(re.search(r"padding_idx ?= ?\d", source_of(one)) for one in definitions):
        return None
    for definition in definitions:
        for number, line in enumerate(lines_of(definition)[0]):
            code = line.partition("#")[0]
            if not code.lstrip().startswith("def ") and re.search(r"[(,] *\w*pad\w* ?= ?\d+ *[,)]", code):
                return definition, Line(number, [])
    return None


FOUND = {"A12": of_input, "A19": of_heads, "A24": of_no_mask, "A29": of_masks, "O11": of_keys}
"""By the definition alone."""
