"""A learner's tokenizer as a function of a text: given merges in the form that it keeps them in, or that it learns."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from scratch_transformer.kit.definitions import names_in
from scratch_transformer.kit.resolve.build.construct import parameters_of
from scratch_transformer.kit.resolve.names.words import plain

RULES = {"re", "regex", "findall", "finditer", "split", "pattern", "pat", "compiled_pattern", "compile"}
"""What a rule for words is made with."""
SAMPLE = "the other"
"""What is shorter once it is merged."""


def encodes(thing: Any) -> bool:
    """Whether it is a class with encode and decode."""
    return isinstance(thing, type) and all(callable(getattr(thing, name, None)) for name in ("encode", "decode"))


def is_tokenizer(thing: Any) -> bool:
    """A class with encode and decode that is made of merges, or keeps those that it learns."""
    if not encodes(thing):
        return False
    return any(plain(p.name) == "merges" for p in parameters_of(thing)) or _learns(thing)


def told(thing: Any) -> dict[str, Any]:
    """The settings that say what it is made for: special tokens, and a rule for words."""
    words = [plain(p.name) for p in parameters_of(thing)]
    names = set[str]().union(*(names_in(cls) for cls in thing.__mro__[:-1]), *(set(vars(c)) for c in thing.__mro__))
    found: dict[str, Any] = {} if any("special" in word for word in words) else {"special_tokens": ()}
    has_rule = bool({plain(name) for name in names} & {plain(rule) for rule in RULES})
    return found if has_rule or any("pat" in word for word in words) else {**found, "splits": False}


def reading(cls: Any, settings: Mapping[str, Any]) -> Callable[..., Any]:
    """text -> its ids, and -1 if they give the text again."""
    make = functools.cache(lambda: _working(cls, settings))

    def encode(text: str) -> Tensor:
        tokenizer = make()()
        ids = [int(i) for i in tokenizer.encode(text)]
        return torch.tensor([*ids, -1 if tokenizer.decode(ids) == text else -2])

    return encode


def _learns(cls: type) -> bool:
    """Whether it is made of nothing, and has methods that read merges of its own and train."""
    required = [p for p in parameters_of(cls) if p.default is p.empty]
    own = set[str]().union(*(names_in(one) for one in cls.__mro__[:-1]))
    return not required and "merges" in own and any(callable(getattr(cls, n, None)) for n in ("train", "fit", "learn"))


def _working(cls: Any, settings: Mapping[str, Any]) -> Callable[[], Any]:
    """The way to make it in which it merges, else one in which it encodes; raises what the first stops with."""
    error: Exception | None = None
    running: list[Callable[[], Any]] = []
    for merges in _forms(settings["merges"]):
        make = _maker(cls, merges, settings)
        try:
            ids = make().encode(SAMPLE)
        except Exception as raised:  # it wants another form
            error = error or raised
            continue
        if len(ids) < len(SAMPLE):
            return make
        running.append(make)
    if running:
        return running[0]
    assert error is not None
    raise error


def _forms(merges: Any) -> tuple[Any, ...]:
    """Pairs of bytes in the order in which they were learned; pairs of ids -> the id of both; such pairs in a row."""
    ids = {bytes([b]): b for b in range(256)} | {a + b: 256 + i for i, (a, b) in enumerate(merges)}
    numbers = {(ids[a], ids[b]): ids[a + b] for a, b in merges}
    return list(merges), numbers, {pair: rank for rank, pair in enumerate(merges)}, list(numbers)


def _maker(cls: Any, merges: Any, settings: Mapping[str, Any]) -> Callable[[], Any]:
    specials = list(settings["special_tokens"])
    words = [
        *(bytes([b]) for b in range(256)),
        *(a + b for a, b in settings["merges"]),
        *(w.encode() for w in specials),
    ]
    given = {"vocab": dict(enumerate(words)), "merges": merges, "special": specials}
    options = {p.name: v for p in parameters_of(cls) for word, v in given.items() if plain(p.name).startswith(word)}

    def make() -> Any:
        tokenizer = cls(**copy.deepcopy(options))
        if "merges" not in {plain(name) for name in options}:  # in place of what it would learn
            if type(getattr(tokenizer, "merges", None)) is not type(merges):
                raise TypeError("it keeps its merges in another form")
            kept = {name: value for name, value in given.items() if hasattr(tokenizer, name)}
            vars(tokenizer).update(copy.deepcopy(kept))
        return tokenizer

    return make
