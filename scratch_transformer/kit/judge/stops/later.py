"""B26: what forward reads and nothing sets, of a class whose constructor stops already: nobody comes to call it."""

from __future__ import annotations

import ast

from torch import nn

from scratch_transformer.kit.definitions import is_module_class, line_at, tree_of
from scratch_transformer.kit.judge.frames import STOPS_AT
from scratch_transformer.kit.judge.stops import meant
from scratch_transformer.kit.judge.stops.attributes import is_own_module, is_set_nowhere, own_classes
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.syntax import is_of_self, nodes_in


def finding(cls: object, known: str) -> Finding | None:
    """B26 of the first self.name that a method but the constructor reads, and that nothing sets.

    known: what is said already.
    """
    blank = cls.__new__(cls) if is_module_class(cls) else None
    if blank is None or not isinstance(cls, type):
        return None
    nn.Module.__init__(blank)
    tree = tree_of(cls)
    if not isinstance(tree, ast.ClassDef) or not is_own_module(blank, cls.__name__):
        return None
    methods = [one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name != "__init__"]
    reads = [n for n in nodes_in(methods, ast.Attribute) if isinstance(n.ctx, ast.Load) and is_of_self(n)]
    for node in sorted(reads, key=lambda one: one.lineno):
        if f"self.{node.attr}" not in known and is_set_nowhere(node.attr, blank, own_classes(blank)):
            line = line_at(cls, node)
            said = (
                f"It would stop later too: it reads self.{node.attr}, which nothing in {cls.__name__} or its file sets."
            )
            stored = [n for n in nodes_in(tree, ast.Attribute) if isinstance(n.ctx, ast.Store)]
            fix = meant.among(node.attr, [n.attr for n in stored if is_of_self(n)])
            return Finding(MISTAKES["B26"], f"{said} {STOPS_AT}{line}", f"self.{node.attr}", fix=fix)
    return None
