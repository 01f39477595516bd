"""Config objects: a learner's own dataclass filled by synonym, or a stand-in that answers to any known name."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any, Protocol

from scratch_transformer.kit.resolve.names.settings import FLAGS, settings_of
from scratch_transformer.kit.resolve.names.words import plain

NAMES = {
    "config", "cfg", "args", "conf", "hparams", "hp", "params", "configuration", "opt", "settings", "modelargs", "c",
    "modelconfig", "hyperparameters", "hyperparams", "options", "opts", "gptconfig", "kwargs", "param",
}  # fmt: skip
WORDS: dict[str, Any] = {
    "act": "gelu",
    "activation": "gelu",
    "hiddenact": "gelu",
    "device": "cpu",
    "dtype": None,
    "initializerrange": 0.02,
    **dict.fromkeys(("modeltype", "modelname", "preset", "pretrained"), None),  # sizes are given one by one
}


class Value(Protocol):
    """A parameter's name -> its value, or `Unknown`."""

    def __call__(self, name: str) -> Any: ...

    def fixes(self, name: str) -> bool:
        """Whether it has been told this value, which then goes before the config's own."""


class Unknown(Exception):
    """No value is known for a parameter."""


def is_config(parameter: inspect.Parameter) -> bool:
    """A parameter that takes a config object, by its name or by the name of its type."""
    kind = (
        parameter.annotation if isinstance(parameter.annotation, str) else getattr(parameter.annotation, "__name__", "")
    )
    return plain(parameter.name) in NAMES or "config" in plain(parameter.name) or "config" in plain(kind)


class Config(dict):
    """Answers to config.n_embd, config["emb_dim"] and config.get("emb_dim"), whatever the name, as `value` knows it."""

    def __init__(self, value: Value, real: Any = None) -> None:
        super().__init__()
        self.__dict__["_value"], self.__dict__["_real"] = value, real

    def _find(self, name: str) -> Any:
        real, value = self.__dict__["_real"], self.__dict__["_value"]
        own = real.get(name, Unknown) if isinstance(real, Mapping) else getattr(real, name, Unknown)
        if value.fixes(name) or (settings_of(name) and not isinstance(own, bool)):
            return value(name)
        if own is not Unknown:
            return own
        if plain(name) in FLAGS:
            return FLAGS[plain(name)]
        if plain(name) in WORDS:
            return WORDS[plain(name)]
        raise Unknown(name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self._find(name)
        except Unknown as error:
            raise AttributeError(f"the config has no {name}") from error

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__[name] = value

    def __getitem__(self, name: str) -> Any:
        try:
            return self._find(name)
        except Unknown as error:
            raise KeyError(name) from error

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self._find(name)
        except Unknown:
            return default

    def __contains__(self, name: object) -> bool:
        return self.get(str(name), Unknown) is not Unknown

    def __deepcopy__(self, memo: object) -> Config:
        return self

    def __reduce__(self) -> Any:
        return Config, (self.__dict__["_value"], self.__dict__["_real"])


def instances(parameter: inspect.Parameter, namespace: Mapping[str, Any], value: Value) -> list[Any]:
    """Config objects to try: of the annotated class, or of one whose name says config, then the stand-in for any."""
    annotation = parameter.annotation
    if isinstance(annotation, str):
        annotation = namespace.get(annotation)
    classes = [annotation] if inspect.isclass(annotation) and annotation is not parameter.empty else []
    classes += [
        found
        for name, found in namespace.items()
        if inspect.isclass(found)
        and found not in classes
        and plain(name).endswith(("config", "args", "hparams", "params"))
    ]
    dictionaries = [d for name, d in namespace.items() if isinstance(d, dict) and is_config_name(name)]
    found = [made for made in (_instance(cls, value) for cls in classes[:3]) if made is not None]
    return [*found, *(Config(value, d) for d in dictionaries[:2]), Config(value, *found[:1])]


def is_config_name(name: str) -> bool:
    """Whether a global of this name holds hyperparameters."""
    return any(word in plain(name) for word in ("config", "cfg", "hparam")) and not name.startswith("__")


def _instance(cls: type, value: Value) -> Any:
    """A config of this class, every field that is known by its name filled; None if it cannot be made."""
    if dataclasses.is_dataclass(cls):
        names = [field.name for field in dataclasses.fields(cls) if field.init]
    else:
        try:
            names = [p.name for p in inspect.signature(cls).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
        except (TypeError, ValueError):
            return None
    try:
        made = cls(**_known(names, cls, value))
    except Exception:
        return None
    for name in {name for base in cls.__mro__ for name in vars(base)} - set(names):
        if isinstance(getattr(made, name, None), (int, float)) and not name.startswith("_"):
            for known in _known([name], cls, value).values():
                _try_to_set(made, name, known)
    return made


def _known(names: list[str], cls: type, value: Value) -> dict[str, Any]:
    known: dict[str, Any] = {}
    for name in names:
        default = getattr(cls, name, None)
        if value.fixes(name) or (settings_of(name) and not isinstance(default, (bool, str))):
            try:
                known[name] = value(name)
            except Unknown:
                continue
    return known


def _try_to_set(made: Any, name: str, value: Any) -> None:
    try:
        setattr(made, name, value)
    except Exception:  # a property, or a frozen dataclass: then the class computes it
        return
