"""A learner's function that draws batches of a text, get_batch(split), as a function of where its windows begin."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from scratch_transformer.kit.arrays.libraries import names_of, reached
from scratch_transformer.kit.canonical.windows import LAST, SHORT
from scratch_transformer.kit.definitions import names_in, nodes_of, parameters_of, source_of
from scratch_transformer.kit.discover.placeholders import Missing
from scratch_transformer.kit.resolve.functions import surroundings
from scratch_transformer.kit.resolve.names.settings import settings_of
from scratch_transformer.kit.resolve.names.words import plain

NAMED = re.compile(r"(?<![a-z])batch(es)?(?![a-z])|Batch")
DRAWS = frozenset(("randint", "integers", "randrange"))
CUT = re.compile(r"\[[^\[\]]+:[^\[\]]+\]")
"""data[i : i + length]"""
SHARED_OUT = re.compile(r"\[[^\[\]]*(\bint\(|\* *len\(|\) *\*)")
"""A part of the text that is cut off in the function itself: data[: int(0.8 * len(data))]."""
OF_A_PART = re.compile(r"(?i)train|val|test")
OTHER_TASKS = re.compile(r"(?i)mask|nois|corrupt|src|tgt")
"""What is to be said is not what comes next."""
WORDS = {
    "device": r".*device.*",
    "batch": r"b|bs|batch(size)?",
    "length": r"[tl]|length|(block|seq|context|window)(size|len|length)?",
    "part": r".*(split|mode|phase).*|type|kind|which|name|set|(is)?train(ing)?",
    "draws": r"rng|.*generator|gen|random|seed",
    "path": r".*(path|dir|file(name)?|folder)",
    "tokens": r".*(data(set)?|tokens?|ids|text|corpus|source|sequence)|(train|val|test|valid).*|arr|array|x|inputs?",
}
"""What things are called, and what that means here."""


class _Cpu(str):
    """A device that is a word to some and an object to others."""

    type = "cpu"


def draws(thing: Any) -> bool:
    """Whether it is a function that draws where windows begin, and knows what each thing is that it must be given."""
    return inspect.isfunction(thing) and NAMED.search(thing.__name__) is not None and _cuts_windows(thing)


@functools.lru_cache(maxsize=1024)
def _cuts_windows(thing: Any) -> bool:
    all_, open_ = [*reached(thing)], [p.name for p in parameters_of(thing) if p.default is p.empty]
    text = _text_of(thing)
    is_cut = CUT.search(text) is not None and any(DRAWS & names_in(one) for one in all_)
    is_cut &= "length" in map(_meaning, re.findall(r"[a-zA-Z]\w*", text))
    pairs = (node.value for one in all_ for node in nodes_of(one, ast.Return))
    texts = [name for name in open_ if _meaning(name) == "tokens" and not OF_A_PART.match(name)]
    is_one_text = len(texts) < 2
    is_one_text &= not any(OTHER_TASKS.search(name) for one in all_ for name in names_in(one))
    gives_two = any(isinstance(pair, (ast.Tuple, ast.List, ast.Dict)) for pair in pairs)
    return is_cut and is_one_text and gives_two and all(_meaning(name) or _attributes(thing, name) for name in open_)


def methods_of(thing: Any) -> list[tuple[str, Any]]:
    """The methods of a class that draw batches of the text that its object has, by name: functions of the object."""
    members = vars(thing).items() if isinstance(thing, type) else ()
    return [(name, one) for name, one in members if draws(one)]


def told(function: Any) -> dict[str, Any]:
    """Whether all of the text is drawn from, so that it is known where that ends."""
    return {"is_whole": SHARED_OUT.search(_text_of(function)) is None}


def _text_of(function: Any) -> str:
    """The code of a function, and of those that it calls."""
    return "\n".join(map(source_of, reached(function)))


def _meaning(name: str) -> str:
    """What a name means here; "" if that is not known."""
    by_size = {"batch": "batch", "max_len": "length"}.get(next(iter(settings_of(name)), ""), "")
    return by_size or next((meaning for meaning, words in WORDS.items() if re.fullmatch(words, plain(name))), "")


def _attributes(function: Any, name: str) -> dict[str, str]:
    """What a function asks an object for, config.block_size -> what that means; {} if any of it is not known."""
    found = {one: _meaning(one) for one in re.findall(rf"(?<![.\w]){name}\.(\w+)", _text_of(function))}
    return found if all(found.values()) else {}


def reading(function: Any, settings: Mapping[str, Any]) -> Callable[[Tensor], Tensor]:
    """Where windows begin -> their tokens and those that come next, (2, B, T)."""
    tokens = settings["tokens"]
    forms: list[Any] = [tokens, tokens.numpy().astype(np.uint16), tokens.tolist()]
    if re.search(r"numpy|\bnp\.", source_of(function)):
        forms[:2] = forms[1], forms[0]

    def windows(draws: Tensor) -> Tensor:
        error: Exception | None = None
        for form in forms:
            try:
                found = _drawn(function, {**settings, "tokens": form}, draws.tolist())
            except Exception as raised:  # it takes another form of a text
                error = error or raised
                continue
            forms.sort(key=lambda one: one is not form)
            return found
        if {*draws.tolist()} == {LAST} and isinstance(error, (IndexError, ValueError, RuntimeError)):
            return torch.full((2, len(draws), settings["length"]), SHORT)  # the last window has no end
        assert error is not None
        raise error

    windows.written = function  # type: ignore[attr-defined]
    return windows


def _drawn(function: Any, settings: Mapping[str, Any], draws: Sequence[int]) -> Tensor:
    with _beginning(draws, settings["tokens"]) as source:
        known = {**settings, "device": _Cpu("cpu"), "part": "train", "path": "text.bin", "draws": source}
        given = dict(_arguments(function, known))
        with surroundings.replaced(function, dict(_globals(function, known))):
            output = function(**given)
    pair = [*(output.values() if isinstance(output, dict) else output)][:2]
    x, y = (torch.as_tensor(np.asarray(one).astype(np.int64) if isinstance(one, np.ndarray) else one) for one in pair)
    return torch.stack([x.long(), y.long()])


def _arguments(function: Any, known: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What must be given, and sizes and the device: those that it has by default are not those of here."""
    for p in parameters_of(function):
        meaning = _meaning(p.name)
        read = {} if meaning == "draws" else _attributes(function, p.name)
        if p.default is not p.empty and meaning not in ("batch", "length", "device"):
            continue
        if meaning == "draws" and "torch" in f"{p.annotation}":
            yield p.name, torch.Generator()
        elif meaning == "part" and (p.annotation in (bool, "bool") or plain(p.name).startswith("is")):
            yield p.name, True
        else:
            yield p.name, known[meaning] if meaning else _of(read, known)


def _globals(function: Any, known: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The text and the sizes that are read outside, or in an object, config.block_size."""
    for one in reached(function):
        own, text = {p.name for p in parameters_of(one)}, source_of(one)
        for name in names_of(one.__code__):
            value, read = one.__globals__.get(name), _attributes(one, name)
            if name in own or hasattr(builtins, name) or not re.search(rf"(?<![.\w]){name}\b", text):
                continue
            is_free = isinstance(value, Missing) or not (inspect.ismodule(value) or callable(value))
            if {"batch", "length", "tokens"} & {*read.values()}:  # of a config: an object, a class or a module
                yield name, _of(read, known)
            elif is_free and (meaning := _meaning(name)):
                yield name, known[meaning]


def _of(read: Mapping[str, str], known: Mapping[str, Any]) -> SimpleNamespace:
    return SimpleNamespace(**{name: known[meaning] for name, meaning in read.items()})


class _Beginnings(TorchFunctionMode):
    """torch.randint gives the numbers that are told, counted from the least; LAST, the largest that it may give."""

    def __init__(self, draws: Sequence[int]) -> None:
        super().__init__()
        self.draws = draws

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.randint:
            given = kwargs or {}
            bounds = [one for one in args if isinstance(one, int)] + [given[n] for n in ("low", "high") if n in given]
            low, high = (0, *bounds) if len(bounds) == 1 else bounds
            size = given.get("size") or next(one for one in args if isinstance(one, (tuple, list, torch.Size)))
            return torch.tensor([*self.take(low, high, int(np.prod(size)))]).reshape(*size)
        return args[0] if func is Tensor.pin_memory else func(*args, **(kwargs or {}))

    def take(self, low: int, high: int, count: int) -> Iterator[int]:
        """So many, one after the other. high: what none of them reaches."""
        for _ in range(count):
            one, *others = self.draws
            self.draws = [*others, one]
            yield high - 1 if one == LAST else low + one

    def array(self, low: int, high: int | None = None, size: Any = None, *dtype: Any, **options: Any) -> Any:
        """As NumPy draws."""
        low, high = (0, low) if high is None else (low, high)
        high += bool(options.get("endpoint"))
        found = np.array([*self.take(int(low), int(high), int(np.prod(size or 1)))])
        return int(found[0]) if size is None else found.reshape(size)

    def between(self, low: int, high: int) -> int:
        """As Python's randint does, which may give its limit."""
        return next(self.take(low, high + 1, 1))

    def below(self, low: int, high: int | None = None) -> int:
        """As Python's randrange does."""
        return next(self.take(*((0, low) if high is None else (low, high)), 1))


@contextmanager
def _beginning(draws: Sequence[int], tokens: Any) -> Iterator[SimpleNamespace]:
    """All that draws numbers draws those, and a file of numbers is the text; gives what may be told to draw so."""
    with _Beginnings(draws) as ours:
        source = SimpleNamespace(integers=ours.array, randint=ours.between, randrange=ours.below)
        text = np.asarray(tokens).astype(np.uint16)
        with (
            mock.patch.multiple(np.random, randint=ours.array, default_rng=functools.partial(_first, source)),
            mock.patch.multiple(random, randint=ours.between, randrange=ours.below),
            mock.patch.object(np, "memmap", functools.partial(_first, text)),
        ):
            yield source


def _first(value: Any, *others: Any, **named: Any) -> Any:
    return value
