"""A learner's tokenizer of letters as a function of a text: made of a text, or with a vocabulary that is written in."""

from __future__ import annotations

import ast
import functools
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from scratch_transformer.kit.definitions import names_in, parameters_called, tree_of
from scratch_transformer.kit.resolve.build.construct import parameters_of
from scratch_transformer.kit.resolve.functions.tokenizing import encodes
from scratch_transformer.kit.resolve.names.words import plain
from scratch_transformer.kit.syntax import nodes_in

OF_TEXT = re.compile(r"text|corpus|data|string|content|char|letter|alphabet|vocab")
"""How that is called which such a tokenizer is made of."""
LEARNS = ("fit", "train", "build", "build_vocab", "build_vocabulary", "build_from_text")
"""Methods that are given the text where the constructor is not."""
LOOKS_UP = ("get", "index")


def numbers(thing: Any) -> bool:
    """Whether it is a class with encode and decode whose encode looks up every letter of a text: ids[c]."""
    return encodes(thing) and _looks_letters_up(thing)


@functools.lru_cache(maxsize=1024)
def _looks_letters_up(thing: Any) -> bool:
    if any("merge" in name for name in names_in(thing)):
        return False
    encode, required = tree_of(thing.encode), _required(thing)
    given = [p.name for p in parameters_called(thing.encode)[:1]]
    is_made_of_text = len(required) < 2 and all(OF_TEXT.search(plain(name)) for name in required)
    return is_made_of_text and encode is not None and bool(given) and any(_looked_up(encode, given[0]))


def told(thing: Any) -> dict[str, Any]:
    """Whether it is given a text: the letters that it has by itself are few."""
    return {} if _required(thing) or _optional(thing) or _learning(thing) else {"corpus": ""}


def reading(cls: Any, settings: Mapping[str, Any]) -> Callable[..., Any]:
    """text -> the numbers of its letters, those of the letters that come first being 0, 1, 2, …; -1 if they give the
    text again. What it puts around any text, a beginning and an end, is none of its letters.
    """
    make = functools.cache(lambda: _working(cls, settings["corpus"]))

    def encode(text: str) -> Tensor:
        tokenizer = make()
        given = tokenizer.encode(text)
        ids = _between([int(one) for one in given], [int(one) for one in tokenizer.encode("")])
        order = {one: number for number, one in enumerate(dict.fromkeys(ids))}
        return torch.tensor([*(order[one] for one in ids), -1 if tokenizer.decode(given) == text else -2])

    return encode


def _between(ids: list[int], around: list[int]) -> list[int]:
    """The ids without those that an empty text has, of which some come first and the others last."""
    for first in range(len(around), -1, -1):
        last = len(ids) - len(around) + first
        if ids[:first] == around[:first] and ids[last:] == around[first:]:
            return ids[first:last]
    return ids


def _required(cls: Any) -> list[str]:
    return [p.name for p in parameters_of(cls) if p.default is p.empty]


def _optional(cls: Any) -> list[str]:
    """What it may be made of: corpus=None, vocab=None."""
    return [p.name for p in parameters_of(cls) if p.default is None and OF_TEXT.search(plain(p.name))]


def _learning(cls: Any) -> str:
    """The name of the method that is given the text; "" if there is none."""
    return next((name for name in LEARNS if callable(getattr(cls, name, None))), "")


def _looked_up(encode: ast.AST, text: str) -> Iterator[bool]:
    """For each loop over a text, whether it looks its letters up."""
    loops = [(one.generators[0], one.elt) for one in nodes_in(encode, ast.ListComp)]
    loops += [(one, ast.Module(one.body, [])) for one in nodes_in(encode, ast.For)]  # type: ignore[misc]
    for loop, body in loops:
        letter = ast.unparse(loop.target)
        subscripts = (node.slice for node in nodes_in(body, ast.Subscript))
        calls = (node for node in nodes_in(body, ast.Call) if getattr(node.func, "attr", "") in LOOKS_UP)
        looked = [*subscripts, *(one for call in calls for one in call.args[:1])]
        yield ast.unparse(loop.iter) in (text, f"list({text})") and letter in map(ast.unparse, looked)


def _working(cls: Any, corpus: str) -> Any:
    """The first object that encodes, of the forms in which it may want letters; raises what the first stops with."""
    error: Exception | None = None
    letters = sorted(set(corpus))
    forms = (corpus, letters, [corpus], {letter: number for number, letter in enumerate(letters)})
    for name, form in itertools.product((*_required(cls), "", *_optional(cls)), forms):
        try:
            tokenizer = cls(**({name: form} if name else {}))
            if not name and (learn := _learning(cls)):
                getattr(tokenizer, learn)(form)
            tokenizer.decode(tokenizer.encode("the"))
        except Exception as raised:  # it wants another form
            error = error or raised
            continue
        return tokenizer
    assert error is not None
    raise error
