"""What a writer of text reads that its file makes elsewhere: a tokenizer, tables of words, the device, the last id.

Only the main block makes it, or a file that is not there, or it knows other words than the toy model.
"""

from __future__ import annotations

import builtins
import inspect
import re
import types
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from scratch_transformer.kit.arrays.libraries import names_of, reached
from scratch_transformer.kit.definitions import source_of
from scratch_transformer.kit.discover.placeholders import Missing
from scratch_transformer.kit.kinds.decoding import BOS, EOS
from scratch_transformer.kit.resolve.build.tokenizer import (
    Tokenizer,
    Words,
    is_table_of_words,
    is_tokenizer,
    last_words,
)
from scratch_transformer.kit.resolve.names.inputs import first_or_last, input_of
from scratch_transformer.kit.resolve.names.words import plain

ABSENT = object()
ASKED = r"\b{}\.(encode|decode|encode_ordinary|tokenize|token_to_id|convert_ids_to_tokens|stoi|itos|batch_decode)\b"
"""What a global is asked for that is a tokenizer, whatever it is called."""

WITHIN = re.compile(r"\bself\.\w+\.(\w+)\.(?:en|de)code\(")
"""What a method asks for ids or words, and its model has within another thing."""


def stand_ins(function: Any) -> dict[str, Any]:
    """The globals of a function, and of those that it calls, that the kit's own take the place of -> those."""
    found: dict[str, Any] = {}
    for one in reached(function):
        text = source_of(one)
        for name in names_of(one.__code__):
            value = one.__globals__.get(name, ABSENT)
            if name not in found and _is_open(value, name) and re.search(rf"(?<![.\w]){name}\b", text):
                found |= dict(_in_place_of(name, value, text))
    return found


def attributes(function: Any) -> dict[str, Any]:
    """What a method asks its object for, of a writer that has a tokenizer or tables of words beside its model."""
    if getattr(function, "owner", None) is None:
        return {}
    text = source_of(function)
    names = [name for name in names_of(function.__code__) if re.search(rf"\bself\.{name}\b", text)]
    names = [name for name in names if not input_of(name, ("next_logits",))]
    tokenizers = [name for name in names if is_tokenizer(name) or re.search(ASKED.format(rf"self\.{name}"), text)]
    tables = [name for name in names if is_table_of_words(name)]
    toy = Tokenizer(BOS, EOS, last=last_words(text))
    return {**dict.fromkeys(tokenizers, toy), **dict.fromkeys(tables, Words(toy.size))}


def has_tokenizer(function: Any) -> bool:
    """Whether a tokenizer, or a table of ids, is among those; or within what its model has, self.state.tokenizer."""
    found = [*stand_ins(function).values(), *attributes(function).values()]
    is_one = any(isinstance(one, Tokenizer) or inspect.ismethod(one) for one in found)
    is_method = getattr(function, "owner", None) is not None
    return is_one or (is_method and any(map(is_tokenizer, WITHIN.findall(source_of(function)))))


def _is_open(value: Any, name: str) -> bool:
    """Whether a global is not there, or is an object that may be anything: no class, function, module or model."""
    if value is ABSENT:
        return not hasattr(builtins, name)
    is_lambda = inspect.isfunction(value) and value.__name__ == "<lambda>"
    is_fixed = isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType))
    return is_lambda or not (is_fixed or isinstance(value, (nn.Module, Tensor, int, float, str)))


def _in_place_of(name: str, value: Any, text: str) -> Iterator[tuple[str, Any]]:
    toy, word = Tokenizer(BOS, EOS, last=last_words(text)), plain(name)
    if word in ("encode", "decode"):
        yield name, getattr(toy, word)
    elif is_table_of_words(name):
        yield name, Words(toy.size)
    elif is_tokenizer(name) or (re.search(ASKED.format(name), text) and not input_of(name, ("next_logits",))):
        yield name, toy
    elif (value is ABSENT or isinstance(value, Missing)) and word in ("device", "devicetype"):
        yield name, "cpu"
    elif value is ABSENT and (end := first_or_last(word)) is not None:
        yield name, end


@contextmanager
def replaced(function: Any, values: Mapping[str, Any]) -> Iterator[None]:
    """Other values for globals of a function, for one call, and such as are not there."""
    with given([one.__globals__ for one in reached(function)] if values else [], values):
        yield


@contextmanager
def given(namespaces: Iterable[dict[str, Any]], values: Mapping[str, Any]) -> Iterator[None]:
    """The same of some namespaces."""
    before = [(namespace, dict(namespace)) for namespace in namespaces]
    try:
        for namespace, _ in before:
            namespace.update(values)
        yield
    finally:
        for namespace, kept in before:
            namespace.update({name: kept[name] for name in values if name in kept})
            for name in values.keys() - kept.keys():
                namespace.pop(name, None)
