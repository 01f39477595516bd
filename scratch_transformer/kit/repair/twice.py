"""A name that is given twice in a row, so that the first is never used, where another is read and never given.

self.linear1 = nn.Linear(…); self.linear1 = nn.Linear(…), and forward reads self.linear2.
"""

from __future__ import annotations

import ast
import itertools
import re
from types import FrameType

from torch import nn

from scratch_transformer.kit.judge.frames import line_of
from scratch_transformer.kit.judge.stops.attributes import is_set_nowhere, own_classes, read_by
from scratch_transformer.kit.repair.edits import Edit, Repair, around
from scratch_transformer.kit.resolve.names.words import words
from scratch_transformer.kit.syntax import Function

Pair = tuple[ast.Assign, ast.Assign]


def of_two(error: BaseException, frame: FrameType, name: str) -> Repair | None:
    """The one of two that is to have the name which nothing gives: linear2, tgt_embed; either, if they are alike."""
    owner, missing, file = frame.f_locals.get("self"), name.removeprefix("self."), frame.f_code.co_filename
    line = line_of(error, frame)
    if isinstance(error, AttributeError) and missing != name and isinstance(owner, nn.Module):
        whole, classes = around(file, line, ast.ClassDef), own_classes(owner)
        unset = [one for one in read_by(classes) if is_set_nowhere(one, owner, classes)]
        makers = [one for one in getattr(whole, "body", ()) if isinstance(one, Function) and one.name == "__init__"]
        maker: ast.AST | None = makers[0] if makers and unset == [missing] else None
    else:
        maker = around(file, line, Function) if type(error) is NameError and missing == name else None
    pairs = _pairs(maker) if isinstance(maker, Function) else []
    meant = _meant(pairs[0], name) if len(pairs) == 1 else None
    if meant is None or not missing.isidentifier():
        return None
    target, old = meant.targets[0], ast.unparse(pairs[0][0].targets[0])
    word = old.removeprefix("self.")
    edit = Edit(target.end_lineno or 0, (target.end_col_offset or 0) - len(word.encode()), word, missing)
    return Repair(file, frame.f_globals, f"{name} in place of {old}, which is given twice.", (edit,))


def _pairs(function: Function) -> list[Pair]:
    """What is made and given the name of what was made before, which nothing has read since."""
    found, waiting = list[Pair](), dict[str, ast.Assign]()
    for statement in function.body:
        loads = [node for node in ast.walk(statement) if isinstance(getattr(node, "ctx", None), ast.Load)]
        read = {ast.unparse(node) for node in loads}
        waiting = {name: made for name, made in waiting.items() if name not in read}
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
            continue
        for name in [ast.unparse(one) for one in statement.targets if isinstance(one, (ast.Name, ast.Attribute))]:
            found += [(waiting[name], statement)] if name in waiting else []
            waiting[name] = statement
    return [pair for pair in found if len(pair[0].targets) == len(pair[1].targets) == 1]


def _meant(pair: Pair, name: str) -> ast.Assign | None:
    """By their numbers, or by the words that one of them is told; the second, if they are alike; None for either."""
    old, alike = ast.unparse(pair[0].targets[0]), ast.unparse(pair[0].value) == ast.unparse(pair[1].value)
    had, asked = (re.fullmatch(r"(.*?)(\d+)(.*)", one) for one in (old, name))
    if had and asked and had.group(1, 3) == asked.group(1, 3) and abs(int(had[2]) - int(asked[2])) == 1:
        return pair[int(asked[2]) > int(had[2])]
    own = {*words(name)} - {*words(old)}
    told = [bool(own & {*itertools.chain(*map(words, _names(made.value)))}) for made in pair]
    if told[0] != told[1]:
        return pair[told[1]]
    return pair[1] if alike else None


def _names(node: ast.AST) -> list[str]:
    return [one.id for one in ast.walk(node) if isinstance(one, ast.Name)]
