"""Norms that a sublayer goes round: self.residual(x, lambda y: self.attention(x, x, x)), where y is norm(x)."""

from __future__ import annotations

import ast
import functools
import re
from typing import Any

from torch import nn

from scratch_transformer.kit.definitions import tree_of
from scratch_transformer.kit.syntax import is_of_self, method_of, names_within, nodes_in

NORM = re.compile(r"(?i)norm|ln_?\d*$")


def bypassed(module: nn.Module | None) -> tuple[int, ...]:
    """The numbers of the sublayers, from 1 on, whose lambda does not use what it is given, as far as the text tells."""
    cls: Any = type(module)
    return _of_class(cls)


@functools.lru_cache(maxsize=1024)
def _of_class(cls: type) -> tuple[int, ...]:
    given = [call for call in _calls(cls) if len(call.args) == 2 and _is_sublayer(call.args[1])]
    return tuple(number for number, call in enumerate(given, 1) if _goes_round(call.args[1]))


def _calls(cls: type) -> list[ast.Call]:
    """Those in forward, as they stand there."""
    calls = nodes_in(method_of(tree_of(cls), "forward"), ast.Call)
    return sorted(calls, key=lambda call: (call.lineno, call.col_offset))


def _is_sublayer(given: ast.expr) -> bool:
    """lambda x: self.attention(x, x, x), self.feed_forward."""
    return is_of_self(given) or isinstance(given, ast.Lambda)


def _goes_round(given: ast.expr) -> bool:
    if not isinstance(given, ast.Lambda) or len(given.args.args) != 1 or not isinstance(given.body, ast.Call):
        return False
    return given.args.args[0].arg not in names_within(given.body)


@functools.lru_cache(maxsize=1024)
def kept(cls: type) -> tuple[int, ...]:
    """The numbers of the norms, from 1 on, whose output takes the place of what they normalize: x = self.norm2(x)."""
    norms = [call for call in _calls(cls) if is_of_self(call.func) and NORM.search(ast.unparse(call.func))]
    set_again = {
        id(node.value)
        for node in nodes_in(method_of(tree_of(cls), "forward"), ast.Assign)
        if isinstance(node.value, ast.Call) and [ast.unparse(node.targets[0])] == [*map(ast.unparse, node.value.args)]
    }
    return tuple(number for number, call in enumerate(norms, 1) if id(call) in set_again)
