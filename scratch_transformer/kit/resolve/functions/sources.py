"""In which form what writes text is given the ids of its source: a batch of one, or a list to make a tensor of."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

from scratch_transformer.kit.definitions import nodes_of
from scratch_transformer.kit.resolve.call.told import SOURCE
from scratch_transformer.kit.syntax import arguments_of, last_name

MAKES_TENSORS = ("tensor", "as_tensor", "LongTensor", "IntTensor")


def as_taken(function: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """The source among what a function is given, as it takes it: src = torch.tensor([src_ids]) needs a list."""
    listed = {*_listed(function)}
    return {name: value.flatten().tolist() for name, value in given.items() if name in listed and _is_source(value)}


def _is_source(value: Any) -> bool:
    return isinstance(value, Tensor) and bool((value == SOURCE).all())


def _listed(function: Any) -> Iterator[str]:
    """The names of what a tensor is made of, alone or between others: tensor([src]), tensor([bos] + src + [eos])."""
    left: list[ast.AST] = [
        one for call in nodes_of(function, ast.Call) if _makes_one(call) for one in arguments_of(call)
    ]
    while left:
        node = left.pop()
        if isinstance(node, ast.Name):
            yield node.id
        left += [*ast.iter_child_nodes(node)] if isinstance(node, (ast.List, ast.BinOp, ast.Starred)) else []


def _makes_one(call: ast.Call) -> bool:
    return last_name(call.func) in MAKES_TENSORS
