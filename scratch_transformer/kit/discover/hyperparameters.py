"""Stand-ins for absent packages that hold hyperparameters: dictionaries whose keys are attributes, read from files."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Any

MISSING = "???"


class Hyperparameters(dict[str, Any]):
    """config.model.d_model and config["model"]["d_model"] are the same; dictionaries within are such too."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__()
        self.update(*given, **options)

    def update(self, *given: Any, **options: Any) -> None:
        for name, value in dict(*given, **options).items():
            self[name] = value

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, wrapped(value))

    def setdefault(self, name: str, default: Any = None) -> Any:
        if name not in self:
            self[name] = default
        return self[name]

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(name) from error

    __setattr__ = __setitem__

    def __deepcopy__(self, memo: Any) -> Hyperparameters:
        return type(self)(plain(self))

    def copy(self) -> Hyperparameters:
        return type(self)(self)

    def to_dict(self) -> dict[str, Any]:
        """Ordinary dictionaries."""
        return plain(self)

    toDict = as_dict = to_dict


class Node(Hyperparameters):
    """yacs' CfgNode: merged from files and lists, frozen, cloned."""

    def freeze(self) -> None:
        pass

    defrost = freeze

    def clone(self) -> Node:
        return Node(plain(self))

    def merge_from_file(self, path: Any) -> None:
        _merge(self, load(path))

    def merge_from_list(self, given: list[Any]) -> None:
        _merge(self, Hyperparameters(zip(given[::2], given[1::2], strict=True)))


def wrapped(value: Any) -> Any:
    """A value with attributes in place of keys, however deep."""
    if isinstance(value, Mapping):
        return value if isinstance(value, Hyperparameters) else Hyperparameters(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return Hyperparameters({field.name: getattr(value, field.name) for field in dataclasses.fields(value)})
    return type(value)(map(wrapped, value)) if type(value) in (list, tuple) else value


def plain(value: Any) -> Any:
    """The same in ordinary dictionaries."""
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items()}
    return type(value)(map(plain, value)) if type(value) in (list, tuple) else value


def load(path: Any) -> Any:
    """What a file of YAML or JSON says."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    try:
        return wrapped(json.loads(text))
    except ValueError:
        import yaml  # type: ignore[import-untyped]

        return wrapped(yaml.safe_load(text))


def _merge(first: Hyperparameters, second: Mapping[str, Any]) -> None:
    for name, value in second.items():
        if isinstance(value, Mapping) and isinstance(first.get(name), Hyperparameters):
            _merge(first[name], value)
        else:
            first[name] = value


def _created(given: Any = None, **options: Any) -> Any:
    if isinstance(given, type) and dataclasses.is_dataclass(given):
        given = given()
    return Hyperparameters() if given is None else wrapped(given)


def _merged(*given: Any) -> Hyperparameters:
    whole = Hyperparameters()
    for one in given:
        _merge(whole, _created(one))
    return whole


class OmegaConf:
    """omegaconf.OmegaConf, without types, interpolation and read-only configs."""

    create = structured = staticmethod(_created)
    merge = staticmethod(_merged)
    load = staticmethod(load)
    from_cli = staticmethod(lambda *given: Hyperparameters())
    to_container = to_object = staticmethod(lambda config, **options: plain(config))
    to_yaml = staticmethod(lambda config, **options: json.dumps(plain(config), default=str))
    is_config = is_dict = staticmethod(lambda config: isinstance(config, Hyperparameters))
    select = staticmethod(lambda config, key, default=None, **options: _selected(config, key, default))
    set_struct = set_readonly = resolve = register_new_resolver = save = staticmethod(lambda *given, **options: None)


def _selected(config: Any, key: str, default: Any) -> Any:
    for name in key.split("."):
        config = config.get(name) if isinstance(config, Mapping) else None
    return default if config is None else config


def _omegaconf() -> dict[str, Any]:
    nothing = contextlib.nullcontext
    return {
        "OmegaConf": OmegaConf,
        "DictConfig": Hyperparameters,
        "ListConfig": list,
        "MISSING": MISSING,
        "II": lambda name: f"${{{name}}}",
        **dict.fromkeys(("open_dict", "read_write"), lambda config: nothing(config)),
    }


PACKAGES: dict[str, Callable[[], dict[str, Any]]] = {
    "omegaconf": _omegaconf,
    "omegaconf.dictconfig": _omegaconf,
    "easydict": lambda: {"EasyDict": Hyperparameters},
    "addict": lambda: {"Dict": Hyperparameters},
    "munch": lambda: {"Munch": Hyperparameters, "munchify": wrapped},
    "attrdict": lambda: {"AttrDict": Hyperparameters},
    "dotmap": lambda: {"DotMap": Hyperparameters},
    "box": lambda: dict.fromkeys(("Box", "ConfigBox", "SBox"), Hyperparameters),
    "ml_collections": lambda: {**dict.fromkeys(("ConfigDict", "FrozenConfigDict"), Hyperparameters), "__path__": []},
    "ml_collections.config_dict": lambda: dict.fromkeys(("ConfigDict", "FrozenConfigDict"), Hyperparameters),
    "yacs": lambda: {"__path__": []},
    "yacs.config": lambda: {"CfgNode": Node},
}
