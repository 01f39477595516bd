"""Stand-ins for packages that are not installed, so that classes that do not need them can be checked all the same."""

from __future__ import annotations

import ast
import functools
import inspect
import types
from collections.abc import Iterator
from typing import Any

MODULES = {"LightningModule", "PreTrainedModel", "Module", "PyTorchModelHubMixin", "Classifier"}
"""Base classes of missing packages that behave like torch.nn.Module."""


@functools.cache
def _lightning() -> type:
    """A module that keeps its hyperparameters as PyTorch Lightning's does, and trains nothing."""
    import torch

    class LightningModule(torch.nn.Module):
        def save_hyperparameters(self, *names: str, **options: Any) -> None:
            frame = inspect.currentframe()
            given = dict(frame.f_back.f_locals) if frame and frame.f_back else {}
            self.hparams = types.SimpleNamespace(**{n: v for n, v in given.items() if n not in ("self", "__class__")})

        def log(self, *args: Any, **options: Any) -> None:
            pass

    return LightningModule


class NotInstalled(Exception):
    """A package is needed that is not installed."""

    def __init__(self, package: str) -> None:
        super().__init__(f"{package} is not installed: pip install {package}")
        self.package = package


class Missing:
    """Anything of a missing package: it can be named, subscripted and looked into, but not called."""

    def __init__(self, package: str) -> None:
        self.__dict__["package"] = package

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        if name in MODULES:
            import torch

            return _lightning() if name == "LightningModule" else torch.nn.Module
        return Missing(self.package)

    def __getitem__(self, key: Any) -> Missing:
        return self

    def __or__(self, other: Any) -> Missing:
        return self

    __ror__ = __or__

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (object,)

    def __call__(self, *args: Any, **options: Any) -> Any:
        raise NotInstalled(self.package)

    def __iter__(self) -> Iterator[Any]:
        raise NotInstalled(self.package)


def stand_in(node: ast.Import | ast.ImportFrom, error: ImportError, module: types.ModuleType) -> None:
    """Puts placeholders where a failed import statement would have put names."""
    package = (error.name or getattr(node, "module", None) or node.names[0].name).split(".")[0]
    for alias in node.names:
        if isinstance(node, ast.Import):
            _import(alias, package, module)
        elif alias.name != "*":
            setattr(module, alias.asname or alias.name, getattr(Missing(package), alias.name))


def _import(alias: ast.alias, package: str, module: types.ModuleType) -> None:
    try:
        found: Any = __import__(alias.name)
        if alias.asname:
            for part in alias.name.split(".")[1:]:
                found = getattr(found, part)
    except ImportError:
        found = Missing(package)
    setattr(module, alias.asname or alias.name.split(".")[0], found)


def used(module: types.ModuleType) -> list[str]:
    """The packages that have placeholders in a namespace."""
    return sorted({value.package for value in vars(module).values() if isinstance(value, Missing)})
