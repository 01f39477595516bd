"""Queries, keys and values that a layer projects before it hands them to an attention that projects them again.

Two linear layers in a row are one. The first are made to change nothing, and the second are compared; or the other way
round, where the first's outputs are turned by their positions before torch's attention gets them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

import torch
from torch import nn

from scratch_transformer.kit.definitions import nodes_of
from scratch_transformer.kit.resolve.names.roles import role_of
from scratch_transformer.kit.syntax import arguments_of, assignments

PROJECTED = "projected_twice"
"""The attribute of a layer that has the names of the first layers, and whether something stands between."""
ROLES = {"q", "k", "v"}


def project_once(module: nn.Module) -> None:
    """Makes the linear layers whose outputs an attention gets, and projects again, the identity."""
    for part in module.modules():
        if hasattr(part, PROJECTED):
            continue
        linears = {name: one for name, one in part.named_children() if type(one) is nn.Linear}
        linears = {name: one for name, one in linears.items() if one.in_features == one.out_features}
        outside = {name for name in linears if role_of(name) in ROLES}
        if len(outside) < len(ROLES):
            continue
        attentions = {name for name, one in part.named_children() if name not in linears and _projects(one)}
        calls = _handed(part, outside, attentions)
        none: tuple[str, dict[str, bool]] = ("", {})
        called, names = next(((name, own) for name, own in calls if {*map(role_of, own)} == ROLES), none)
        attention = part.get_submodule(called)
        if not names or (any(names.values()) and not _gives_on(attention)):
            continue
        for linear in (linears[name] for name in names) if not any(names.values()) else ():
            linear.weight = nn.Parameter(torch.eye(linear.in_features).to(linear.weight), requires_grad=False)
            linear.register_parameter("bias", None)
        setattr(part, PROJECTED, (", ".join(f"self.{name}" for name in names), any(names.values())))


def _gives_on(attention: nn.Module) -> bool:
    """Makes the projections of queries, keys and values in torch's attention the identity; False for any other."""
    weight = getattr(attention, "in_proj_weight", None)
    if not isinstance(attention, nn.MultiheadAttention) or weight is None:
        return False
    every = torch.eye(attention.embed_dim).to(weight).repeat(3, 1)
    attention.in_proj_weight = nn.Parameter(every, requires_grad=False)
    attention.register_parameter("in_proj_bias", None)
    return True


def _projects(attention: nn.Module) -> bool:
    """Whether it is an attention that has projections of queries, keys and values of its own."""
    roles = {role_of(name) for name, _ in attention.named_parameters()}
    return isinstance(attention, nn.MultiheadAttention) or "qkv" in roles or roles >= ROLES


def _handed(part: nn.Module, outside: set[str], attentions: set[str]) -> Iterator[tuple[str, dict[str, bool]]]:
    """For every call of an attention: its name, and the linear layers whose outputs it is given, as its class is
    written, each with whether something is done with the output before.
    """
    nodes = nodes_of(type(part))
    made = {target.id: value for target, value in assignments(nodes) if isinstance(target, ast.Name)}
    for node in nodes:
        if isinstance(node, ast.Call) and (name := _called(node)) in attentions:
            found = [_origin(one, made, outside) for one in arguments_of(node)]
            yield name, {origin: is_changed for origin, is_changed in found if origin}


def _origin(node: ast.expr, made: Mapping[str, ast.expr], outside: set[str], steps: int = 3) -> tuple[str, bool]:
    """The linear layer from whose output alone an expression is computed, and whether it is more than that; or ""."""
    if (name := _called(node)) in outside:
        return name, False
    if isinstance(node, ast.Name):
        return _origin(made[node.id], made, outside, steps - 1) if steps and node.id in made else ("", False)
    within = [
        _origin(one, made, outside, steps)
        for one in ast.walk(node)
        if isinstance(one, (ast.Name, ast.Call)) and one is not node
    ]
    names = {name for name, _ in within if name}
    return (names.pop(), True) if len(names) == 1 else ("", False)


def _called(node: ast.expr) -> str:
    """self.query(x) -> "query"; "" for what is no call of a part."""
    name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
    return name.removeprefix("self.") if name.startswith("self.") else ""
