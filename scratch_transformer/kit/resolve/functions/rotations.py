"""Tables of angles that a learner's functions and classes make: for what takes one, and to be checked themselves."""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from scratch_transformer.kit.canonical import rotary
from scratch_transformer.kit.definitions import is_module_class
from scratch_transformer.kit.resolve.build.construct import parameters_of
from scratch_transformer.kit.resolve.call import beside
from scratch_transformer.kit.resolve.call.precision import double
from scratch_transformer.kit.resolve.candidate import tensors
from scratch_transformer.kit.resolve.names.settings import settings_of
from scratch_transformer.kit.resolve.names.words import plain

MAKERS = re.compile(r"freq|rope|rotary|cossin|sincos|angles|theta|rotation")
ROWS = ("end", "length", "seqlen", "maxlen", "n", "t", "context", "maxseqlen", "maxpositionembeddings", "l")

Hear = Callable[[BaseException], None]
KINDS = {"device": torch.device("cpu"), "dtype": torch.float64}
"""What is said of the tensors that are to be made."""


def made_by(namespace: Mapping[str, Any], module: str, rows: int, d_k: int, base: float) -> list[tuple[Tensor, ...]]:
    """Tables of `rows` positions for heads of d_k features, as the learner's functions make them."""
    makers = _makers(namespace, module, inspect.isfunction)
    tables = (_table(make, values, rows) for make in makers for values in _arguments(make, rows, d_k, base))
    return [table for table in tables if table]


def of_its_file(function: Any, rows: int, d_k: int, base: float) -> dict[str, tuple[Tensor, ...]]:
    """Cosines and sines of every feature that a function's file makes for it, by what makes them, a class or function.

    {} where another function of the file takes such, too: they may be that one's.
    """
    namespace, module = function.__globals__, function.__module__
    for other in _makers(namespace, module, inspect.isfunction, re.compile("")):
        names = [p.name for p in parameters_of(other)]
        together = {other.__name__, function.__name__} & {*function.__code__.co_names, *other.__code__.co_names}
        if other is not function and not together and any(beside.TABLE.search(plain(name)) for name in names):
            return {}
    found = {}
    for make in _makers(namespace, module, inspect.isfunction):
        for values in _arguments(make, rows, d_k, base):
            found[make.__name__] = _table(make, values, rows)
    for cls in _makers(namespace, module, is_module_class):
        for values in _arguments(cls, rows, d_k, base):
            with contextlib.suppress(Exception), double():  # the learner's code may raise anything
                found[cls.__name__] = of_module(cls(**values), rows, d_k)
    return {name: two for name, two in found.items() if len(two) == 2 and all(one.shape[-1] == d_k for one in two)}


def _makers(
    namespace: Mapping[str, Any], module: str, is_one: Callable[[Any], bool], called: re.Pattern[str] = MAKERS
) -> list[Any]:
    """The functions, or classes, of a file whose names say that they make tables."""
    return [v for n, v in list(namespace.items()) if is_one(v) and v.__module__ == module and called.search(plain(n))]


def as_turning(made: Any, settings: Mapping[str, Any], hear: Hear) -> Callable[..., Tensor] | None:
    """What makes a table, as a function that turns x (B, h, T, d_k) by it; None for what makes none.

    hear: told what it stops with.
    """
    rows, d_k, base = settings["max_len"], settings["d_k"], settings["rope_base"]

    def made_for(length: int, dtype: torch.dtype) -> tuple[Tensor, ...]:
        if isinstance(made, nn.Module):
            return of_module(made, length, d_k, dtype)
        arguments = next(_arguments(made, length, d_k, base, dtype), None) if inspect.isfunction(made) else None
        return _table(made, arguments, length, hear, dtype) if arguments else ()

    table = made_for(rows, torch.float64)
    if not table or any(part.shape[-1] not in (d_k, d_k // 2) for part in table):
        return None

    def turn(x: Tensor) -> Tensor:
        """x (B, h, T, d_k)."""
        length = max(rows, x.shape[-2])
        own = table if (length, x.dtype) == (rows, torch.float64) else made_for(length, x.dtype) or table
        if own[0].shape[-2:] == (d_k, d_k):  # a matrix for every position
            return torch.einsum("tij,bhtj->bhti", own[0][: x.shape[-2]].to(x.dtype), x)
        c, s = (part[: x.shape[-2]].to(x.dtype) for part in _cos_and_sin(own, length))
        half = d_k // 2
        across = c.shape[-1] == d_k and bool(torch.equal(s[:, :half], s[:, half:]))
        order = "halves" if across else "interleaved"
        if c.shape[-1] == half:
            c, s = (rotary.joined(part, part, order) for part in (c, s))
        turned = rotary.TURNS["forward"](*rotary.pairs(x, order), rotary.pairs(c, order), rotary.pairs(s, order))
        return rotary.joined(*turned, order)

    return turn


def _cos_and_sin(table: tuple[Tensor, ...], rows: int) -> tuple[Tensor, Tensor]:
    """(rows, d_k) or (rows, d_k/2), of cosines and sines, complex numbers, or angles."""
    flat = [part.reshape(rows, -1) for part in table]
    if len(flat) == 2:
        return flat[0], flat[1]
    first, second = flat[0].chunk(2, -1)
    if not flat[0].is_complex() and bool(((first**2 + second**2 - 1).abs() < 1e-5).all()):  # cosines, then sines
        return first, second
    return (flat[0].real, flat[0].imag) if flat[0].is_complex() else (flat[0].cos(), flat[0].sin())


def of_module(made: nn.Module, rows: int, d_k: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, ...]:
    """What a class for rotary positions returns, if that is a table and no turned tensor."""
    x = torch.zeros(1, rows, 1, d_k, dtype=dtype)
    named = {p.name: _kind(p, dtype) for p in parameters_of(made.forward) if plain(p.name) in KINDS}
    for arguments in ((x, torch.arange(rows)[None]), (x, rows), (torch.arange(rows),), (rows,), (x[:, :, 0],), ()):
        try:
            with double(dtype == torch.float64), torch.no_grad():
                table = tuple(tensors(made(*arguments, **named)))
        except Exception:  # the learner's code may raise anything
            continue
        if table and all(rows in part.shape and part.shape != x.shape and bool(part.any()) for part in table[:1]):
            return table[:2]
    return ()


def _arguments(
    function: Any, rows: int, d_k: int, base: float, dtype: torch.dtype = torch.float64
) -> Iterator[dict[str, Any]]:
    """Values for the parameters of a function of numbers; nothing if one of them is none."""
    values: dict[str, Any] = {}
    for parameter in parameters_of(function):
        word, meant = plain(parameter.name), settings_of(parameter.name)
        if word in ROWS or "max_len" in meant:
            values[parameter.name] = rows
        elif {"d_model", "d_k"} & set(meant) or word in ("dim", "d"):
            values[parameter.name] = d_k
        elif "rope_base" in meant:
            values[parameter.name] = base
        elif word in KINDS:
            values[parameter.name] = _kind(parameter, dtype)
        elif parameter.default is parameter.empty:
            return
    yield values


def _kind(parameter: inspect.Parameter, dtype: torch.dtype) -> Any:
    """What is said of tensors: a type, where it is no usual one, only to what must be told one."""
    is_told = parameter.default is parameter.empty or dtype == torch.float64
    said = {**KINDS, "dtype": dtype}[plain(parameter.name)]
    return said if is_told else parameter.default


def _table(
    function: Any, arguments: dict[str, Any], rows: int, hear: Hear | None = None, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, ...]:
    try:
        with double(dtype == torch.float64), torch.no_grad():
            made = function(**arguments)
            is_maker = inspect.isfunction(made) and not parameters_of(made)  # of the table that it keeps
            table = tuple(tensors(made() if is_maker else made))
    except Exception as error:  # the learner's code may raise anything
        if hear is not None:
            hear(error)
        return ()
    return table[:2] if table and all(rows in part.shape for part in table[:2]) else ()
