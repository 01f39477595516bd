"""What models are written with, in place of absent packages: einops computes, jaxtyping only describes, CuPy is NumPy.

For the child process only, and only where the package itself is not installed.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import inspect
import os
import sys
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typing_extensions

from scratch_transformer.kit.discover import hyperparameters, parallel_layers
from scratch_transformer.kit.discover.axes_by_name import einsum, einx, layer, parse_shape, rearrange, reduce, repeat
from scratch_transformer.kit.discover.silent import SILENT, contents, tqdm, without_profiler


class Described:
    """jaxtyping's Float[Tensor, "batch time"], which says something to people and computes nothing."""

    def __class_getitem__(cls, key: Any) -> Any:
        return key[0] if isinstance(key, tuple) else cls


def _same(function: Any = None, **options: Any) -> Any:
    """A decorator that does nothing, with and without arguments."""
    return function if callable(function) else _same


def _einops() -> dict[str, Any]:
    return {"rearrange": rearrange, "repeat": repeat, "reduce": reduce, "einsum": einsum, "parse_shape": parse_shape}


def _einops_layers() -> dict[str, Any]:
    return {"Rearrange": layer(rearrange, 1), "Reduce": layer(reduce, 2)}


def _jaxtyping() -> dict[str, Any]:
    types_ = ("Float", "Int", "Bool", "Num", "Shaped", "Inexact", "Integer", "UInt", "Complex", "Real", "Float32",
              "Float16", "BFloat16", "Float64", "Int64", "Int32", "Int8", "UInt8", "Key", "PyTree", "Array", "Scalar",
              "ScalarLike", "ArrayLike")  # fmt: skip
    return {**dict.fromkeys(types_, Described), "jaxtyped": lambda *_, **__: _same, "install_import_hook": _same}


def _pydantic() -> dict[str, Any]:
    """Models that hold what they are given, and check nothing."""

    class BaseModel:
        def __init_subclass__(cls, **options: Any) -> None:
            for name in inspect.get_annotations(cls):
                if isinstance(default := cls.__dict__.get(name), (list, dict, set)):
                    setattr(cls, name, dataclasses.field(default_factory=functools.partial(copy.copy, default)))
            dataclasses.dataclass(cls, kw_only=True)

        def model_dump(self, include: Any = None, exclude: Any = (), **options: Any) -> dict[str, Any]:
            values = dataclasses.asdict(self)  # type: ignore[call-overload]
            return {n: v for n, v in values.items() if (include is None or n in include) and n not in (exclude or ())}

        def model_copy(self, update: Any = None, **options: Any) -> Any:
            return dataclasses.replace(self, **(update or {}))  # type: ignore[type-var]

        dict = model_dump

    def field(default: Any = ..., *, default_factory: Any = None, **options: Any) -> Any:
        if default_factory is not None:
            return dataclasses.field(default_factory=default_factory)
        return dataclasses.field() if default is ... else dataclasses.field(default=default)

    return {
        "BaseModel": BaseModel,
        "BaseSettings": BaseModel,
        "Field": field,
        "ConfigDict": dict,
        "__path__": [],
        "dataclass": dataclasses.dataclass,
        "__getattr__": lambda name: _same,
    }


def _cupy() -> dict[str, Any]:
    """NumPy's functions, by its name too: they compute the same on the CPU."""
    import numpy as np

    def of_type(draw: Callable[..., Any]) -> Callable[..., Any]:
        def drawn(*given: Any, dtype: Any = None, **options: Any) -> Any:
            values = draw(*given, **options)
            return values if dtype is None else np.asarray(values, dtype)

        return functools.wraps(draw)(drawn)

    own = {name: value for name, value in vars(np).items() if name not in IMPORTED}
    draws = {name: of_type(getattr(np.random, name)) for name in np.random.__all__ if name.islower()}
    own["random"] = types.SimpleNamespace(**{**vars(np.random), **draws})
    return {**own, "asnumpy": np.asarray, "get_array_module": lambda *given: np, "fuse": _same}


class TwoWays(dict[Any, Any]):
    """bidict's dictionary, whose inverse has the keys of its values: of words and their numbers."""

    @property
    def inverse(self) -> dict[Any, Any]:
        return TwoWays({value: key for key, value in self.items()})

    inv = inverse


IMPORTED = ("__spec__", "__loader__", "__path__", "__package__")
"""What importing sets of a module."""
CONTENTS: dict[str, Callable[[], dict[str, Any]]] = {
    "bidict": lambda: {"bidict": TwoWays},
    "cupy": _cupy,
    "einops": _einops,
    "einops.layers": dict,
    "einops.layers.torch": _einops_layers,
    "fancy_einsum": lambda: {"einsum": einsum},
    "einx": einx,
    "jaxtyping": _jaxtyping,
    "beartype": lambda: {"beartype": _same},
    **dict.fromkeys(("pydantic", "pydantic.dataclasses", "pydantic_settings"), _pydantic),
    "typeguard": lambda: {"typechecked": _same},
    **dict.fromkeys(("tqdm", "tqdm.auto", "tqdm.notebook", "tqdm.autonotebook"), tqdm),
    **hyperparameters.PACKAGES,
    **parallel_layers.PACKAGES,
}


def _contents(name: str) -> Callable[[], dict[str, Any]] | None:
    """What makes the contents of a module, if there is a stand-in for it."""
    return contents if name.partition(".")[0] in SILENT else CONTENTS.get(name)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Asked last, so only for what is not installed. used: the packages that were stood in for. homes: the learner's
    folders.
    """

    def __init__(self) -> None:
        self.used: set[str] = set()
        self.homes: set[str] = set()

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if _contents(fullname) is None or self._is_asked_by_others():
            return None
        self.used.add(fullname.partition(".")[0])
        is_package = any(other.startswith(f"{fullname}.") for other in CONTENTS)
        return importlib.machinery.ModuleSpec(fullname, self, is_package=is_package)

    def _is_asked_by_others(self) -> bool:
        """Whether an installed package asks, which does without what is not installed."""
        frame: Any = sys._getframe(2)
        while frame is not None and "importlib" in frame.f_code.co_filename:
            frame = frame.f_back
        file = "" if frame is None else frame.f_code.co_filename
        home = max((one for one in (KIT, *self.homes) if file.startswith(one + os.sep)), key=len, default="")
        return any(folder in Path(file[len(home) :]).parts for folder in INSTALLED)  # within a learner's folder, too

    def exec_module(self, module: types.ModuleType) -> None:
        make = _contents(module.__name__)
        assert make is not None
        vars(module).update(make())


INSTALLED = ("site-packages", "dist-packages")
KIT = str(Path(__file__).parents[2])
_FINDER = _Finder()


UNKNOWN = "0.0.0"
"""The version of what is not installed."""


def _version(distribution_name: str) -> str:
    """A learner's own package is asked for its version, __version__ = version("assignment"), and is not installed."""
    try:
        return importlib.metadata.distribution(distribution_name).version
    except importlib.metadata.PackageNotFoundError:
        return UNKNOWN


def install(home: str = "") -> None:
    """Makes the packages importable where they are absent, and what only a GPU's profiler reads do nothing.

    home: a folder of the learner's, whose files may ask for them wherever it is.
    """
    _FINDER.homes |= {home} if home else set()
    without_profiler()
    with_newer_names()
    importlib.metadata.version = _version
    if _FINDER not in sys.meta_path:
        sys.meta_path.append(_FINDER)


NEWER_NAMES = (
    *("override", "Self", "Never", "assert_never", "LiteralString", "Required", "NotRequired", "Unpack", "TypeIs"),
    *("ReadOnly", "reveal_type"),
)
"""What annotations are written with. Of others, as of a TypeVar with defaults, packages ask whether they are there."""


def with_newer_names() -> None:
    """What typing has in a newer Python, from typing_extensions, which torch brings: from typing import override."""
    for name in NEWER_NAMES:
        if not hasattr(typing, name):
            setattr(typing, name, getattr(typing_extensions, name))


def used() -> list[str]:
    """The packages that were stood in for so far."""
    return sorted(_FINDER.used)
