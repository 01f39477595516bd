"""Functions that return several masks, return src_mask, tgt_mask: a function each, told apart by their shapes."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from scratch_transformer.kit.definitions import nodes_of, tree_of
from scratch_transformer.kit.kind import Kind
from scratch_transformer.kit.resolve.call.plan import CannotCall
from scratch_transformer.kit.resolve.functions import mask_makers
from scratch_transformer.kit.resolve.names.words import plain
from scratch_transformer.kit.syntax import inside, last_name, nodes_in

KINDS = ("TargetMask", "PaddingMask", "CausalMask")
OF_FUTURE = re.compile(r"causal|future|ahead|subsequent|tri")
OF_TARGET = re.compile(rf"{OF_FUTURE.pattern}|tgt|trg|target|dec")
OF_SOURCE = re.compile(r"src|source|^enc|^mem")
"""Of what may hide nothing at all, as no source hides its future."""
SIZES = {"size", "shape", "device"}
"""What is read of ids that no number of theirs goes into."""
BESIDE = 2
"""How many words more the other side's sentences have."""


def outputs_of(function: Any) -> list[tuple[str, Any]]:
    """Each mask of a function that returns several, by the name that it has there; [] of any other."""
    tree = tree_of(function) if inspect.isfunction(function) and not is_output(function) else None
    returned = [node.value for node in inside(tree) if isinstance(node, ast.Return)] if tree is not None else []
    if len(returned) != 1 or not isinstance(returned[0], ast.Tuple) or not mask_makers.kind_of(function):
        return []
    names = [_name(node) or str(number) for number, node in enumerate(returned[0].elts, 1)]
    return [(name, _one(function, name, index)) for index, name in enumerate(names)]


def _name(value: ast.expr) -> str:
    """source_mask, or of an expression the first such name in it."""
    named = [node.id for node in ast.walk(value) if isinstance(node, ast.Name)]
    said = [name for name in named if mask_makers.SAYS.search(name)]
    return value.id if isinstance(value, ast.Name) else next(iter(said), "")


def _one(function: Any, name: str, index: int) -> Any:
    @functools.wraps(function)
    def mask(*given: Any, **named: Any) -> Any:
        return function(*given, **named)[index]

    mask.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    mask.output = name  # type: ignore[attr-defined]
    return mask


def _expanded(mask: Tensor) -> bool:
    """Whether one row stands for all queries, or one column for all keys, in a mask with as many of both."""
    return any(torch.equal(mask, one.expand_as(mask)) for one in (mask[..., :1, :], mask[..., :1]))


def measured_alone(function: Any, name: str) -> bool:
    """Whether a function reads nothing of these ids but how many there are: what it makes of them hides no padding."""
    nodes = nodes_of(function)
    read = [node for node in nodes_in(nodes[:1], ast.Name) if node.id == name]
    held = {node.value for node in nodes if isinstance(node, ast.Attribute) and node.attr in SIZES}
    held |= {one for node in nodes if isinstance(node, ast.Call) and last_name(node.func) == "len" for one in node.args}
    return bool(read) and held.issuperset(read)


def is_output(thing: Any) -> bool:
    """Whether it is one of several masks that a function gives; a class may have a field of that name."""
    return inspect.isfunction(thing) and hasattr(thing, "output")


def kinds_of(function: Any) -> tuple[str, ...]:
    """What one of several masks may be: its shape tells, and its name what is likely."""
    name = plain(function.output)
    if OF_SOURCE.search(name):
        return "PaddingMask", "TargetMask"
    first = "CausalMask" if OF_FUTURE.search(name) else "PaddingMask" if "pad" in name else KINDS[0]
    return tuple(dict.fromkeys((first, *KINDS)))


def readings(function: Any, kind: Kind, pad: int) -> list[Callable[..., Any]]:
    """Readings of one of several masks as one of the canonical inputs; of ids (T, B) too."""
    roles = mask_makers.roles_by_name(function)
    ids_of = [name for name, role in roles.items() if role == "ids"]
    rest = {name: pad if role == "pad" else "cpu" for name, role in roles.items() if role != "ids"}

    def given(ids: Tensor, side: str, is_turned: bool) -> dict[str, Tensor]:
        other = torch.full((len(ids), ids.shape[1] + BESIDE), pad + 1)
        sides = {name: ids if name == side or len(ids_of) == 1 else other for name in ids_of}
        return {name: value.T if is_turned else value for name, value in sides.items()}

    def reading(side: str, is_turned: bool) -> Callable[..., Any]:
        def of_ids(ids: Tensor) -> Any:
            output = function(**given(ids, side, is_turned), **rest)
            axes = output.dim() if isinstance(output, Tensor) else 0
            is_square = axes > 2 and output.shape[-1] == output.shape[-2] and len(output) == len(ids)
            is_square = is_square and not _expanded(output)
            is_own = axes > 1 and len(output) == len(ids)
            is_own &= ids.shape[1] in output.shape[-1:] or output.shape[-2:] == (ids.shape[1], 1)
            if not is_own or is_square != (kind.name == "TargetMask") or (is_square and measured_alone(function, side)):
                raise CannotCall("it is a mask of another sort")
            return output

        def of_length(length: int) -> Any:
            output = function(**given(torch.full((2, length), pad + 1), side, is_turned), **rest)
            leading = output.shape[:-2] if isinstance(output, Tensor) else (2,)
            is_open = length > 1 and len(torch.as_tensor(output).unique()) == 1
            is_lost = is_open and not OF_TARGET.search(plain(function.output))  # a source hides no future
            if is_lost or any(size != 1 for size in leading) or output.shape[-2:] != (length, length):
                raise CannotCall("it is a mask of another sort")
            return output

        return of_length if kind.name == "CausalMask" else of_ids

    return [reading(side, is_turned) for side in ids_of for is_turned in (False, True)]
