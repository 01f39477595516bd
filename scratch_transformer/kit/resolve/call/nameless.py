"""Masks whose names say nothing, forward(a, b, m1, m2): each is what the parts call it that it is handed on to."""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch import nn

from scratch_transformer.kit.definitions import DEEP, is_own, nodes_of, parameters_of
from scratch_transformer.kit.resolve.names.inputs import CROSS_MASK, SOURCE_MASK, TARGET_MASK, input_of, is_mask
from scratch_transformer.kit.resolve.names.words import plain
from scratch_transformer.kit.syntax import is_of_self, names_within, nodes_in

ACROSS = "cross_mask"
"""The name of a mask of attention that takes its queries from one side, and its keys from the other."""
BY_USE = "mask"
"""The name of what scores are filled by."""
JOINED = (ast.Mult, ast.BitAnd, ast.BitOr, ast.MatMult)
PRODUCTS = ("mul", "multiply", "bmm", "matmul", "einsum", "outer", "logical_and", "logical_or")
"""How two masks are made one, of the padding of queries and keys."""


def with_named_masks(made: Any) -> Callable[..., Any] | None:
    """A forward, or a function, under the names that its parts have for its masks; None of one whose own names tell,
    or that has none.
    """
    own_forward = made.forward if isinstance(made, nn.Module) else made
    names, taken = dict[str, str](), parameters_of(own_forward)
    there = {p.name for p in taken}
    for parameter, name in _handed(own_forward, made, DEEP).items():
        names[parameter] = name if name not in {*names.values(), *there} else f"{name}_{parameter}"
    if not names:
        return None

    @functools.wraps(own_forward)
    def forward(**given: Any) -> Any:
        return made(**{own: given[name] for own, name in called.items() if name in given})

    called = {p.name: names.get(p.name, p.name) for p in taken}
    named = [p.replace(name=called[p.name], kind=inspect.Parameter.KEYWORD_ONLY) for p in taken]
    said = ", ".join(f"{own} is its {name}" for own, name in names.items())
    forward.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    forward.note = f"By what becomes of it: {said}."  # type: ignore[attr-defined]
    return forward


def _handed(function: Any, made: Any, depth: int) -> dict[str, str]:
    """The parameters whose names do not say so, and that are handed on as masks alone -> as which.

    made: the module that the function is a method of.
    """
    nodes = nodes_of(function)
    handed = {id(own): name for call in nodes if isinstance(call, ast.Call)
              for value, name in _masks_of(call, function, made, depth) for own in _within(value)}  # fmt: skip
    handed |= {id(own): BY_USE for value in _filled_by(nodes) for own in _within(value)}
    handed |= _under_another_name(nodes, handed, {p.name for p in parameters_of(function)})
    asked = {
        id(node.left) for node in nodes if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is | ast.IsNot)
    }
    asked |= {id(name) for node in nodes if isinstance(node, ast.Assign) for name in _of_itself(node)}
    asked |= {id(node.value) for node in nodes if isinstance(node, ast.Assign) and is_of_self(node.targets[0])}  # kept
    found = dict[str, str]()
    for parameter in parameters_of(function):
        if is_mask(parameter.name) or isinstance(parameter.default, bool):
            continue
        uses = {id(node) for node in nodes if isinstance(node, ast.Name) and node.id == parameter.name}
        names = [handed[use] for use in uses if use in handed]
        if names and uses <= {*handed, *asked}:
            found[parameter.name] = max(sorted(names), key=_tells)
    return found


def _under_another_name(nodes: Sequence[ast.AST], handed: dict[int, str], parameters: set[str]) -> dict[int, str]:
    """What a line makes another name of, mask = pad[:, None] * pad[:, :, None], that is handed on as a mask alone."""
    uses = [node for node in nodes if isinstance(node, ast.Name)]
    found = dict[int, str]()
    for line in (node for node in nodes if isinstance(node, ast.Assign) and len(node.targets) == 1):
        name = line.targets[0]
        if not isinstance(name, ast.Name) or name.id in parameters:
            continue
        named = [handed.get(id(use), "") for use in uses if use.id == name.id and isinstance(use.ctx, ast.Load)]
        if named and all(named):
            found |= {id(own): max(sorted(named), key=_tells) for own in _within(line.value)}
    return found


def _filled_by(nodes: Sequence[ast.AST]) -> Iterator[ast.expr]:
    """What scores are filled by: keep in scores.masked_fill(~keep, …), torch.where(keep, …), attn_mask=keep."""
    for call in (node for node in nodes if isinstance(node, ast.Call)):
        name = ast.unparse(call.func).rpartition(".")[2]
        if name in ("masked_fill", "masked_fill_", "where") and call.args:
            yield _where_zero(call.args[0]) if name != "where" else call.args[0]
        yield from (word.value for word in call.keywords if word.arg in ("attn_mask", "key_padding_mask"))


def _where_zero(value: ast.expr) -> ast.expr:
    """What is asked whether it is 0, keep == 0; of ids, where they are padding is asked in other ways."""
    is_asked = isinstance(value, ast.Compare) and isinstance(value.ops[0], ast.Eq)
    return value.left if is_asked and ast.unparse(value.comparators[0]) in ("0", "False") else value  # type: ignore[attr-defined]


def _within(value: ast.expr) -> Iterator[ast.expr]:
    """What an expression is another form of: keep of ~keep[:, None], None if keep is None else keep.bool()."""
    if isinstance(value, ast.IfExp):
        yield from (*_within(value.body), *_within(value.orelse))
    elif isinstance(value, ast.UnaryOp):
        yield from _within(value.operand)
    elif isinstance(value, ast.BinOp) and isinstance(value.op, JOINED):
        yield from (*_within(value.left), *_within(value.right))
    elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        joined = value.args if value.func.attr in PRODUCTS else []
        yield from (own for one in (value.func.value, *joined) for own in _within(one))
    elif isinstance(value, ast.Subscript):
        yield from _within(value.value)
    else:
        yield value


def _of_itself(node: ast.Assign) -> Iterator[ast.AST]:
    """The names in a line that makes another form of something: keep = keep.unsqueeze(1)."""
    target = node.targets[0]
    names = nodes_in(node, ast.Name)
    if isinstance(target, ast.Name):
        yield from (one for one in names if one.id == target.id)


def _tells(name: str) -> bool:
    """Whether the name of a mask says of which side it is."""
    return any(side.search(plain(name)) for side in (CROSS_MASK, SOURCE_MASK, TARGET_MASK))


def _masks_of(call: ast.Call, function: Any, made: Any, depth: int) -> Iterator[tuple[ast.expr, str]]:
    """What a call hands on as a mask, and what that is called there."""
    called = _called(call.func, function, made)
    own = getattr(called, "forward", called)
    names = [p.name for p in parameters_of(own) if p.name != "self"] if called is not None else []
    given = [*zip(names, call.args, strict=False), *((word.arg, word.value) for word in call.keywords if word.arg)]
    inside = {name for name, _ in given if not is_mask(name)}
    is_named = inspect.isroutine(called) or isinstance(called, type)
    is_within = bool(depth and inside) and called is not None and is_own(called if is_named else type(called))
    deeper = _handed(own, getattr(own, "__self__", None), depth - 1) if is_within else {}
    sides = {input_of(name, ("query", "key")): ast.unparse(value) for name, value in given}
    across = isinstance(called, nn.Module) and _is_across(sides)  # a function is given heads, made of either
    for name, value in given:
        name = deeper.get(name, name)
        if is_mask(name):
            yield value, ACROSS if across and not _tells(name) else name


def _is_across(given: dict[str | None, str]) -> bool:
    """Whether attention is given keys of another sequence than its queries."""
    return {"query", "key"} <= given.keys() and given["query"] != given["key"]


def _called(called: ast.expr, function: Any, made: Any) -> Any:
    """What a call calls: a part, the first of a list of parts, a method, a function of the file; None if not known."""
    if isinstance(called, ast.Attribute):
        owner = _called(called.value, function, made)
        return getattr(owner, called.attr, None)
    if isinstance(called, ast.Subscript):
        return _first(_called(called.value, function, made))
    if not isinstance(called, ast.Name):
        return None
    if called.id == "self":
        return made
    over = [loop for loop in _loops(getattr(function, "__func__", function)) if called.id in names_within(loop.target)]
    before = [loop for loop in over if loop.iter.lineno <= called.lineno]
    if before:
        within = max(before, key=lambda loop: loop.iter.lineno).iter
        lists = [_called(node, function, made) for node in nodes_in(within, ast.Attribute)]
        return next((one for each in lists if (one := _first(each)) is not None), None)
    return getattr(inspect.unwrap(function), "__globals__", {}).get(called.id)


@functools.lru_cache(maxsize=1024)
def _loops(function: Any) -> list[Any]:
    """Those of a function. Found once: every name that is called may be what one of them goes over."""
    return [node for node in nodes_of(function) if isinstance(node, ast.For | ast.comprehension)]


def _first(several: Any) -> Any:
    """The first of a list of parts, None of anything else."""
    is_list = isinstance(several, nn.ModuleList | nn.Sequential | list | tuple) and len(several)
    return several[0] if is_list else None
