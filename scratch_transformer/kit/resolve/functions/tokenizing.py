"""A learner's tokenizer as a function of a text: given merges in the form that it keeps them in, or that it learns."""

from __future__ import annotations

import copy
import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from scratch_transformer.kit.definitions import is_own, leads_to, names_in, namespace_of
from scratch_transformer.kit.resolve.build.construct import parameters_of
from scratch_transformer.kit.resolve.names.words import plain

RULES = {"re", "regex", "findall", "finditer", "split", "pattern", "pat", "compiled_pattern", "compile"}
"""What a rule for words is made with."""
CUTS = re.compile(r"pre_?tok", re.IGNORECASE)
"""A name of what cuts a text into words, wherever its rule is."""
BY_ID = re.compile(r"^(id|i|int|idx|index|number)s?(to|2)|itos|^vocab(ulary)?$|^decoder$")
BY_TOKEN = re.compile(r"(to|2)(id|i|int|idx|index|number)s?$|stoi|^inv|^rev|^encoder$")
"""How tables are called whose keys are ids, and those whose keys are the tokens."""
GIVEN = ("vocab", "merges", "special")
"""How the names begin of what a constructor can be given."""
SAMPLE = "the other"
"""What is shorter once it is merged."""


def encodes(thing: Any) -> bool:
    """Whether it is a class with encode and decode."""
    return isinstance(thing, type) and all(callable(getattr(thing, name, None)) for name in ("encode", "decode"))


def is_tokenizer(thing: Any) -> bool:
    """A class with encode and decode that is made of merges, or keeps those that it learns."""
    if not encodes(thing):
        return False
    return _is_told_merges(thing) or _learns(thing) or _holder_of(thing) is not None


def _is_told_merges(cls: type) -> bool:
    """Whether a constructor asks for merges, and for nothing but a vocabulary and special tokens besides."""
    words = [plain(p.name) for p in parameters_of(cls) if p.default is p.empty]
    is_told = all(any(word.startswith(one) for one in GIVEN) for word in words)
    return is_told and any(plain(p.name) == "merges" for p in parameters_of(cls))


def _holder_of(cls: type) -> tuple[str, type] | None:
    """The one thing that must be told, by its name, and its class, if that is told merges: Tok(params: Params)."""
    asked = [p for p in parameters_of(cls) if p.default is p.empty]
    if len(asked) != 1:
        return None
    said = asked[0].annotation
    holder: Any = namespace_of(cls).get(said) if isinstance(said, str) else said
    is_one = isinstance(holder, type) and is_own(holder) and _is_told_merges(holder)
    return (asked[0].name, holder) if is_one else None


def _taken(cls: type) -> list[inspect.Parameter]:
    """What must be told to make one, by itself or by what holds it."""
    holder = _holder_of(cls)
    return [*parameters_of(cls), *(parameters_of(holder[1]) if holder is not None else ())]


def told(thing: Any) -> dict[str, Any]:
    """The settings that say what it is made for: special tokens, and a rule for words."""
    words = [plain(p.name) for p in _taken(thing)]
    within = [one for cls in thing.__mro__[:-1] for one in (cls, *leads_to(cls))]
    names = set[str]().union(*map(names_in, within), *(set(vars(c)) for c in thing.__mro__))
    found: dict[str, Any] = {} if any("special" in word for word in words) else {"special_tokens": ()}
    has_rule = bool({plain(name) for name in names} & {plain(rule) for rule in RULES}) or any(map(CUTS.search, names))
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
    given = dict(zip(GIVEN, (dict(enumerate(words)), merges, specials), strict=True))
    options = {p.name: v for p in _taken(cls) for word, v in given.items() if plain(p.name).startswith(word)}
    holder = _holder_of(cls)

    def make() -> Any:
        own = copy.deepcopy(options)
        tokenizer = cls(**own) if holder is None else cls(**{holder[0]: holder[1](**own)})
        if "merges" not in {plain(name) for name in options}:  # in place of what it would learn
            if type(getattr(tokenizer, "merges", None)) is not type(merges):
                raise TypeError("it keeps its merges in another form")
            kept = {name: value for name, value in given.items() if hasattr(tokenizer, name)}
            empty = {name: value for name, value in vars(tokenizer).items() if value in ({}, []) and name not in kept}
            vars(tokenizer).update(copy.deepcopy(_filled(empty, merges, given["vocab"]) | kept))
        return tokenizer

    return make


def _filled(empty: Mapping[str, Any], merges: Any, vocab: Mapping[int, bytes]) -> dict[str, Any]:
    """What is empty in a tokenizer that has not learned: its merges once more, and tables of its tokens, by the names.

    vocab: id -> token.
    """
    found: dict[str, Any] = {}
    pairs, ids = list(merges), {token: number for number, token in vocab.items()}
    for name, value in empty.items():
        word = plain(name)
        if "merge" in word or word.endswith("ranks"):
            ranks = {pair: rank for rank, pair in enumerate(pairs)}
            numbers = ranks if "rank" in word or not isinstance(merges, dict) else merges
            found[name] = dict(numbers) if isinstance(value, dict) else pairs
        elif isinstance(value, dict) and BY_TOKEN.search(word):
            found[name] = ids
        elif isinstance(value, dict) and BY_ID.search(word):
            found[name] = dict(vocab)
    return found
