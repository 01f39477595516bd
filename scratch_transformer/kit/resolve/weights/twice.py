"""Queries, keys and values that a layer projects before it hands them to an attention that projects them again.

Two linear layers in a row are one. The first are made to change nothing, and the second are compared.
"""

from __future__ import annotations

import torch
from torch import nn

from scratch_transformer.kit.resolve.names.roles import role_of

PROJECTED = "projected_twice"
"""The attribute of a layer that has the names of those that change nothing now."""
ROLES = {"q", "k", "v"}


def project_once(module: nn.Module) -> None:
    """Makes every linear layer for queries, keys or values the identity beside attentions that all have their own."""
    for part in module.modules():
        if hasattr(part, PROJECTED):
            continue
        linears = {name: one for name, one in part.named_children() if type(one) is nn.Linear and _is_square(one)}
        outside = {name: role for name in linears if (role := role_of(name)) in ROLES}
        attentions = [one for name, one in part.named_children() if name not in linears and _attends(one)]
        if {*outside.values()} != ROLES or not attentions or not all(map(_projects, attentions)):
            continue
        for linear in (linears[name] for name in outside):
            linear.weight = nn.Parameter(torch.eye(linear.in_features).to(linear.weight), requires_grad=False)
            linear.register_parameter("bias", None)
        setattr(part, PROJECTED, ", ".join(f"self.{name}" for name in outside))


def _is_square(linear: nn.Linear) -> bool:
    return linear.in_features == linear.out_features


def _attends(part: nn.Module) -> bool:
    """Whether it is an attention, as far as the names of its weights tell."""
    return isinstance(part, nn.MultiheadAttention) or any(role_of(name) in ROLES for name, _ in part.named_parameters())


def _projects(attention: nn.Module) -> bool:
    """Whether an attention has projections of queries, keys and values of its own."""
    roles = {role_of(name) for name, _ in attention.named_parameters()}
    return isinstance(attention, nn.MultiheadAttention) or "qkv" in roles or roles >= ROLES
