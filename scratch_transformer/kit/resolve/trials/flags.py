"""What code makes of a mask that it asks whether it is true, if mask: a flag, or a mask that stops it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import Any

from torch import nn

from scratch_transformer.kit.definitions import is_own, leads_to, source_of
from scratch_transformer.kit.judge.frames import learners_places, nodes_on
from scratch_transformer.kit.resolve.names.settings import SOURCE
from scratch_transformer.kit.resolve.names.words import words
from scratch_transformer.kit.syntax import Function, is_on, names_within, nodes_in

IS_ASKED = "Boolean value of Tensor"
"""In what torch says of a tensor of several numbers that is to be true or false."""
ENDS = (ast.Return, ast.Raise)
QUESTIONS = (ast.If, ast.IfExp, ast.While, ast.Assert)


def asked(made: Any, names: Iterable[str]) -> list[str]:
    """Those of these names that its code, or that of its parts, asks whether they are true: if mask: …"""
    names = [*filter(may_hide, names)]
    if not names:
        return []
    parts: set[Any] = {made, *leads_to(made)} if not isinstance(made, nn.Module) else {*map(type, made.modules())}
    text = "\n".join(source_of(one) for one in parts if is_own(one))
    return [name for name in names if re.search(rf"\bif (not )?{name}( and\b.*)?:", text)]


def may_hide(name: str) -> bool:
    """Whether a flag of this name may be about the future: not src_mask, nor pad_mask."""
    return not {*words(name)} & {"pad", "padding", "memory", *SOURCE}


def is_computed_with(error: BaseException) -> bool:
    """Whether what the line of an error asks for is computed with where it is true: scores.masked_fill(mask == 0, …).

    Not where it is another by then: if mask: mask = torch.ones(n, n).triu(1), which is a flag. So is what is True or
    False by default. What is asked by mask or … is itself where it is true.
    """
    own = learners_places(error)
    line = own[-1].lineno or 0 if own else 0
    scopes = [*nodes_on(own[-1].filename, line, Function)] if own else []
    if not scopes:
        return False
    scope = max(scopes, key=lambda node: node.lineno)
    asked = [node for node in ast.walk(scope) if isinstance(node, (ast.If, ast.IfExp)) and is_on(node.test, line)]
    others = [node for node in nodes_in(scope, ast.BoolOp) if is_on(node, line)]
    is_either = not asked and any(isinstance(node.op, ast.Or) for node in others)
    return is_either or any(_is_used(node, scope) for node in asked)


def _is_used(asked: ast.If | ast.IfExp, scope: Function) -> bool:
    """Whether the first that becomes of it where it is true is that it is read."""
    names = names_within(asked.test) - _flags(scope)
    if not names:
        return False
    turned = any(isinstance(node, ast.Not) for node in ast.walk(asked.test))
    where, otherwise = map(_listed, (asked.orelse, asked.body) if turned else (asked.body, asked.orelse))
    found = [name for part in where for name in _read(part, names)]
    if not found and not (where and isinstance(where[-1], ENDS)):
        every = [*_read(scope, names, asked.test)]
        begin = max(n for n, name in enumerate(every) if id(name) in _ids(asked.test))
        found = [name for name in every[begin + 1 :] if id(name) not in set().union(*map(_ids, otherwise))]
    return bool(found) and isinstance(found[0].ctx, ast.Load)


def _ids(node: ast.AST) -> set[int]:
    return {id(one) for one in ast.walk(node)}


def _listed(branch: list[ast.stmt] | ast.expr) -> list[ast.AST]:
    return [*branch] if isinstance(branch, list) else [branch]


def _flags(scope: Function) -> set[str]:
    """The parameters that are True or False by default, or are said to be."""
    arguments = [*scope.args.posonlyargs, *scope.args.args]
    defaults = [*zip(reversed(arguments), reversed(scope.args.defaults), strict=False)]
    defaults += [(one, v) for one, v in zip(scope.args.kwonlyargs, scope.args.kw_defaults, strict=True) if v]
    by_default = {one.arg for one, value in defaults if isinstance(getattr(value, "value", None), bool)}
    said = {one.arg for one in arguments if isinstance(one.annotation, ast.Name) and one.annotation.id == "bool"}
    return by_default | said


def _read(node: ast.AST, names: set[str], test: ast.AST | None = None) -> Iterator[ast.Name]:
    """Where these names are read or set, in the order in which it is computed.

    Not where it is asked whether they are true, or are there, but for one test.
    """
    if node is not test and isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Is, ast.IsNot)):
        return
    if isinstance(node, ast.Name) and node.id in names:
        yield node
    parts = [*ast.iter_child_nodes(node)]
    if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
        parts = [node.value, *(part for part in parts if part is not node.value)]
    for part in parts:
        if part is test or not (isinstance(node, QUESTIONS) and part is node.test and _is_plain(part)):
            yield from _read(part, names, test)


def _is_plain(test: ast.AST) -> bool:
    """mask, or not mask."""
    return isinstance(test.operand if isinstance(test, ast.UnaryOp) else test, ast.Name)
