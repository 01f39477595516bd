"""Hyperparameters outside of constructors: globals, and what a global config holds, a dictionary, object or module."""

from __future__ import annotations

import enum
import inspect
import re
import sys
import types
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from torch import nn

from scratch_transformer.kit.definitions import is_of_torch, is_own, names_in, source_of
from scratch_transformer.kit.discover.placeholders import Missing
from scratch_transformer.kit.resolve.build.config import Config, Unknown, fits, is_number
from scratch_transformer.kit.resolve.build.values import Values
from scratch_transformer.kit.resolve.names.settings import is_setting, settings_of
from scratch_transformer.kit.resolve.names.words import plain

HOLDERS = re.compile(
    r"conf(ig(uration)?)?s?$|cfg|hparams?|^hps?$|hyperparam|args$|arguments|params$|settings|^opts?$|options|constants?$"
    r"|^flags$|defaults$"
)
"""Names of globals that hold hyperparameters."""
OF_CLASSES = re.compile(r"[A-Z]\w*[a-z]")
"""A name that nothing defines, MultiHeadAttention, is none of a number."""
DEEPEST = 3
LEAST_SETTINGS = 2
"""Sizes that a model has, to be one."""


def override(namespace: dict[str, Any], names: set[str], settings: Mapping[str, Any], own: set[str]) -> dict[str, Any]:
    """Sets module-level hyperparameters (n_embd, block_size) to the settings. Returns the names with their settings.

    names: the globals that the learner's functions read. own: names that are defined in the source.
    """
    values = Values(settings, {})
    values.has_vocabulary = any("vocab" in plain(name) for name in (*names, *_told(namespace)))
    changed: dict[str, Any] = {}
    for name in sorted(names):
        value = namespace.get(name)
        is_missing = isinstance(value, Missing)  # of a file that could not be run
        present = name in namespace and not (is_missing and is_setting(name))
        if (is_missing and HOLDERS.search(plain(name))) or isinstance(value, Config):
            namespace[name] = Config(values)
            continue
        if HOLDERS.search(plain(name)) and _is_filled_elsewhere(value):
            namespace[name] = Config(values, value)
            continue
        if present and _holds(name, value):
            changed |= _within(value, settings, 0)
            continue
        if present and settings_of(name)[:1] == ("eps",):
            continue  # no size: norms that are told it by this name have the same as those that are told a number
        if (present and not is_number(value)) or (not present and name not in own and len(name) < 3):
            continue
        if not present and (hasattr(__builtins__, name) or OF_CLASSES.match(name)):
            continue
        try:
            namespace[name] = values(name)
        except Unknown:
            if not present and plain(name) == "device":
                namespace[name] = "cpu"
            continue
        changed[name] = namespace[name]
    return changed


def _told(namespace: Mapping[str, Any]) -> Iterator[str]:
    """The names that the constructors of a file's classes have: beside vocab_size, NUM_EMBEDDINGS is a width."""
    makers = (vars(cls).get("__init__") for cls in [*namespace.values()] if isinstance(cls, type))
    for maker in makers:
        yield from maker.__code__.co_varnames if inspect.isfunction(maker) else ()


READ_LATER = re.compile(r"self\.\w*drop\w*|\bdropout\(|\bDropout\(|F\.dropout")
"""What a forward has of dropout where only the constructor reads how much is to be dropped."""


def drops_as_told(made: Any, dropout: float) -> bool:
    """Whether a constructor read how much is to be dropped, of all that drops, and no other method reads that later."""
    layers = [part for part in made.modules() if isinstance(part, nn.Dropout)] if isinstance(made, nn.Module) else []
    if not layers or any(part.p != dropout for part in layers):
        return False
    for cls in {type(part) for part in made.modules()}:
        methods = () if is_of_torch(cls) else vars(cls).items()
        for name, method in methods:
            left = READ_LATER.sub("", source_of(method)) if inspect.isfunction(method) and name != "__init__" else ""
            if "drop" in left.lower():
                return False
    return True


def _holds(name: str, value: Any) -> bool:
    """Whether a global is a holder of hyperparameters: by its name, or a module of the learner's that has such."""
    if isinstance(value, types.ModuleType):
        return _is_own(value) and any(is_setting(one) and is_number(v) for one, v in vars(value).items())
    if _has_sizes_of_models(value):
        return True
    if (
        HOLDERS.search(plain(name)) is None
        or isinstance(value, (nn.Module, str))
        or callable(getattr(value, "forward", 0))
    ):
        return False
    if isinstance(value, type):
        return not issubclass(value, (nn.Module, enum.Enum))
    return isinstance(value, MutableMapping) or (hasattr(value, "__dict__") and not callable(value))


def _is_filled_elsewhere(value: Any) -> bool:
    """Whether an object of the learner's has no hyperparameters yet, and a method that sets any: config.set(n=64)."""
    cls: Any = type(value)
    if isinstance(value, (type, nn.Module, Mapping)) or not is_own(cls) or not {"setattr", "__dict__"} & names_in(cls):
        return False
    return not any(is_setting(name) for name, _ in _items(value))


def _has_sizes_of_models(value: Any) -> bool:
    """Whether it has the hyperparameters of models by their names: {"small": {"n_layer": 12, "n_embd": 768}}."""
    models = [*value.values()] if isinstance(value, Mapping) else []
    if not models or not all(isinstance(one, MutableMapping) for one in models):
        return False
    numbers = ({name for name, size in one.items() if isinstance(name, str) and is_number(size)} for one in models)
    return all(sum(map(is_setting, names)) >= LEAST_SETTINGS for names in numbers)


def _is_own(module: types.ModuleType) -> bool:
    """Whether a module is a file of the learner's: none of Python's, of a package's, or of the kit's."""
    file = getattr(module, "__file__", None) or ""
    is_installed = "site-packages" in file or file.startswith((sys.base_prefix, sys.prefix))
    return bool(file) and not is_installed and module.__name__.partition(".")[0] != __name__.partition(".")[0]


def _within(holder: Any, settings: Mapping[str, Any], depth: int) -> dict[str, Any]:
    """Sets the numbers that a holder has under names of settings; of holders in it too."""
    items, values = dict(_items(holder)), Values(settings, {})
    changed: dict[str, Any] = {}
    values.reserve([name for name, value in items.items() if is_number(value, None)])
    for name, value in items.items():
        is_inner = isinstance(value, MutableMapping) or (hasattr(value, "__dict__") and not callable(value))
        if is_inner and depth < DEEPEST and not isinstance(value, (nn.Module, types.ModuleType)):
            changed |= _within(value, settings, depth + 1)
        elif is_setting(name) and is_number(value, None) and fits(name, value):
            try:
                changed[name] = values(name)
                _set(holder, name, changed[name])
            except Exception:  # no value is known, or the learner's class lets nobody set it
                changed.pop(name, None)
    return changed


def _items(holder: Any) -> Iterator[tuple[str, Any]]:
    owner = () if isinstance(holder, (type, types.ModuleType, Mapping)) else reversed(type(holder).__mro__[:-1])
    given = {name: value for cls in owner for name, value in vars(cls).items() if is_number(value, None)}
    found = holder.items() if isinstance(holder, Mapping) else {**given, **vars(holder)}.items()
    for name, value in list(found):
        if isinstance(name, str) and not name.startswith("_"):
            yield name, value


def _set(holder: Any, name: str, value: Any) -> None:
    if isinstance(holder, MutableMapping):
        holder[name] = value
    elif isinstance(holder, (type, types.ModuleType)):
        setattr(holder, name, value)
    else:
        object.__setattr__(holder, name, value)  # a frozen dataclass's too
