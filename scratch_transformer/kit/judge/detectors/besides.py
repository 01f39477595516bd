"""B26 of methods beside forward which always stop, as they read an attribute that nothing sets."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from typing import Any

from torch import nn

from scratch_transformer.kit.definitions import is_of_torch, line_at, tree_of
from scratch_transformer.kit.judge.frames import STOPS_AT
from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import Session
from scratch_transformer.kit.judge.stops import meant
from scratch_transformer.kit.judge.stops.attributes import (
    given_to,
    is_own_module,
    is_set_nowhere,
    own_classes,
    text_of,
    told_in,
)
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES

ASKS = ("hasattr", "getattr", "setattr")
"""What asks whether an attribute is there, before it is read."""
INNER = (ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef)
"""What runs later, if at all."""


def methods_that_stop(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """The first of a class that runs; what forward calls has been called."""
    module = session.candidate.module
    if best is None or module is None or not is_own_module(module, type(module).__name__):
        return
    cls: Any = type(module)
    tree: Any = tree_of(cls)
    for method in [one for one in tree.body if isinstance(one, ast.FunctionDef) and not one.name.startswith("__")]:
        if method.name == "forward" or [one.arg for one in method.args.args][:1] != ["self"]:
            continue
        for node in _always_read(method):
            if (owner := _without(node, module)) is not None:
                line = line_at(cls, node)
                read = ast.unparse(node)
                said = f"Its {method.name} reads {read}, which nothing in {type(owner).__name__} or its file sets"
                form = read if read.count(".") == 1 else f".{node.attr}"
                fix = meant.among(node.attr, given_to(owner)).replace("self.", f"{ast.unparse(node.value)}.")
                yield Finding(MISTAKES["B26"], f"{said}: it always stops. {STOPS_AT}{line}", form, fix=fix)
                return


def _always_read(method: ast.FunctionDef) -> Iterator[ast.Attribute]:
    """What its statements read whatever is so, as far as nothing asks whether it is there, or leaves before."""
    if any(isinstance(one, ast.Name) and one.id in ASKS for one in ast.walk(method)):
        return
    for statement in method.body:
        if hasattr(statement, "body"):
            if not isinstance(statement, (ast.For, ast.With)) or any(map(_leaves, ast.walk(statement))):
                return
            continue
        waiting: list[ast.AST] = [statement]
        while waiting:
            node = waiting.pop(0)
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                yield node
            sometimes = isinstance(node, (*INNER, ast.IfExp, ast.BoolOp))
            waiting += [] if sometimes else ast.iter_child_nodes(node)


def _leaves(node: ast.AST) -> bool:
    return isinstance(node, (ast.Return, ast.Raise, ast.Try, ast.Break, ast.Yield))


def _without(node: ast.Attribute, module: nn.Module) -> nn.Module | None:
    """The module of which this reads an attribute that it has not, nor is ever given; None for anything else."""
    owner = _part(node.value, module)
    if not isinstance(owner, nn.Module) or hasattr(owner, node.attr):
        return None
    if is_of_torch(type(owner)):
        return None if {node.attr, "setattr"} & told_in(text_of(type(module))) else owner
    is_own = is_own_module(owner, type(owner).__name__)
    texts = {node.attr, "setattr"} & told_in(text_of(type(module))) if owner is not module else set()
    return owner if is_own and not texts and is_set_nowhere(node.attr, owner, own_classes(owner)) else None


def _part(node: ast.expr, module: nn.Module) -> object:
    """What self, self.embed and self.embed.table are; None for anything else."""
    if isinstance(node, ast.Name):
        return module if node.id == "self" else None
    owner = _part(node.value, module) if isinstance(node, ast.Attribute) else None
    if not isinstance(node, ast.Attribute) or not isinstance(owner, nn.Module):
        return None
    is_computed = isinstance(inspect.getattr_static(type(owner), node.attr, None), property)
    return None if is_computed else getattr(owner, node.attr, None)


BESIDES = ((("B26",), methods_that_stop),)
