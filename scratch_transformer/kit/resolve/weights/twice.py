"""Queries, keys and values that a layer projects before it hands them to an attention that projects them again.

Two linear layers in a row are one. The first are made to change nothing, and the second are compared.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import torch
from torch import nn

from scratch_transformer.kit.definitions import assignments, nodes_of
from scratch_transformer.kit.resolve.names.roles import role_of

PROJECTED = "projected_twice"
"""The attribute of a layer that has the names of those that change nothing now."""
ROLES = {"q", "k", "v"}


def project_once(module: nn.Module) -> None:
    """Makes the linear layers whose outputs an attention gets, and projects again, the identity."""
    for part in module.modules():
        if hasattr(part, PROJECTED):
            continue
        linears = {name: one for name, one in part.named_children() if type(one) is nn.Linear and _is_square(one)}
        outside = {name for name in linears if role_of(name) in ROLES}
        if len(outside) < len(ROLES):
            continue
        attentions = {name for name, one in part.named_children() if name not in linears and _projects(one)}
        names = next((own for own in _handed(part, outside, attentions) if {*map(role_of, own)} == ROLES), [])
        for linear in (linears[name] for name in names):
            linear.weight = nn.Parameter(torch.eye(linear.in_features).to(linear.weight), requires_grad=False)
            linear.register_parameter("bias", None)
        if names:
            setattr(part, PROJECTED, ", ".join(f"self.{name}" for name in names))


def _is_square(linear: nn.Linear) -> bool:
    return linear.in_features == linear.out_features


def _projects(attention: nn.Module) -> bool:
    """Whether it is an attention that has projections of queries, keys and values of its own."""
    roles = {role_of(name) for name, _ in attention.named_parameters()}
    return isinstance(attention, nn.MultiheadAttention) or "qkv" in roles or roles >= ROLES


def _handed(part: nn.Module, outside: set[str], attentions: set[str]) -> Iterator[list[str]]:
    """For every call of an attention: the linear layers whose outputs it is given, as its class is written."""
    nodes = nodes_of(type(part))
    made = {target.id: _called(value) for target, value in assignments(nodes) if isinstance(target, ast.Name)}
    for node in nodes:
        if isinstance(node, ast.Call) and _called(node) in attentions:
            given = [*node.args, *(word.value for word in node.keywords)]
            found = [made.get(one.id, "") if isinstance(one, ast.Name) else _called(one) for one in given]
            yield [name for name in dict.fromkeys(found) if name in outside]


def _called(node: ast.expr) -> str:
    """self.query(x) -> "query"; "" for what is no call of a part."""
    name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
    return name.removeprefix("self.") if name.startswith("self.") else ""
