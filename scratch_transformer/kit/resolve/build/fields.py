"""What a field of a config is filled with that no setting is: by its annotation, as what checks its fields wants it."""

from __future__ import annotations

import contextlib
import enum
import inspect
import re
import typing
from typing import Any

from scratch_transformer.kit.definitions import namespace_of
from scratch_transformer.kit.resolve.names.settings import SHARING
from scratch_transformer.kit.resolve.names.words import plain

ONE_FOR_BOTH = re.compile(rf"{SHARING.pattern}|joint|common|same")
"""Of the words for how source and target are cut into tokens: vocabularies of two sizes cannot be one."""
EMPTY = (str, bool, int, float, list, dict, tuple)


def one_of(cls: type, name: str) -> Any:
    """A member of an enumeration, or one of several words: the first that says no ONE_FOR_BOTH; else None."""
    kind = _kind(cls, name)
    found: dict[str, Any] = {}
    if inspect.isclass(kind) and issubclass(kind, enum.Enum):
        found = {member.name: member for member in kind}
    elif typing.get_origin(kind) is typing.Literal:
        found = {str(word): word for word in typing.get_args(kind)}
    apart = [value for word, value in found.items() if not ONE_FOR_BOTH.search(plain(word))]
    return next(iter([*apart, *found.values()]), None)


def neutral(cls: type, name: str) -> Any:
    """The text "", 0, an empty list; None where the annotation says nothing of the sort."""
    kind = _kind(cls, name)
    kind = typing.get_origin(kind) or kind
    return kind() if kind in EMPTY else None


def _kind(cls: type, name: str) -> Any:
    """What a class, or one that it inherits from, says of a field."""
    with contextlib.suppress(Exception):  # a name that nothing defines, of another field
        return typing.get_type_hints(cls).get(name)
    told = (vars(one).get("__annotations__", {}) for one in cls.__mro__)
    said = next((own[name] for own in told if name in own), None)
    if not isinstance(said, str):
        return said
    of_python = {kind.__name__: kind for kind in EMPTY}
    return namespace_of(cls).get(said) or of_python.get(said.partition("[")[0].lower())
