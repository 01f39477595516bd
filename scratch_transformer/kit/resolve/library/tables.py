"""The tables of angles that a learner's own functions and classes make, for what takes one beside its tensors."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from scratch_transformer.kit.resolve.build.construct import parameters_of
from scratch_transformer.kit.resolve.call.precision import double
from scratch_transformer.kit.resolve.candidate import tensors
from scratch_transformer.kit.resolve.names.settings import settings_of
from scratch_transformer.kit.resolve.names.words import plain

MAKERS = re.compile(r"freq|rope|rotary|cossin|sincos|angles|theta|rotation")
ROWS = ("end", "length", "seqlen", "maxlen", "n", "t", "context", "maxseqlen", "maxpositionembeddings", "l")


def made_by(namespace: Mapping[str, Any], module: str, rows: int, d_k: int, base: float) -> list[tuple[Tensor, ...]]:
    """Tables of `rows` positions for heads of d_k features, as the learner's functions make them."""
    found: list[tuple[Tensor, ...]] = []
    for name, value in list(namespace.items()):
        if inspect.isfunction(value) and value.__module__ == module and MAKERS.search(plain(name)):
            for arguments in _arguments(value, rows, d_k, base):
                table = _table(value, arguments, rows)
                if table:
                    found.append(table)
                    break
    return found


def of_module(made: nn.Module, rows: int, d_k: int) -> tuple[Tensor, ...]:
    """What a class for rotary positions returns, if that is a table and no turned tensor."""
    x = torch.zeros(1, rows, 1, d_k, dtype=torch.float64)
    for arguments in ((x, torch.arange(rows)[None]), (x, rows), (torch.arange(rows),), (rows,), (x[:, :, 0],), ()):
        try:
            with double(), torch.no_grad():
                table = tuple(tensors(made(*arguments)))
        except Exception:  # the learner's code may raise anything
            continue
        if table and all(rows in part.shape and part.shape != x.shape and bool(part.any()) for part in table[:1]):
            return table[:2]
    return ()


def _arguments(function: Any, rows: int, d_k: int, base: float) -> Iterator[dict[str, Any]]:
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
        elif word == "device":
            values[parameter.name] = "cpu"
        elif parameter.default is parameter.empty:
            return
    yield values


def _table(function: Any, arguments: dict[str, Any], rows: int) -> tuple[Tensor, ...]:
    try:
        with double(), torch.no_grad():
            table = tuple(tensors(function(**arguments)))
    except Exception:  # the learner's code may raise anything
        return ()
    return table[:2] if table and all(rows in part.shape for part in table[:2]) else ()
