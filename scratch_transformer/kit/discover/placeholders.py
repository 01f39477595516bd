"""Stand-ins for packages that are not installed, so that classes that do not need them can be checked all the same."""

from __future__ import annotations

import ast
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

from scratch_transformer.kit.discover import familiar
from scratch_transformer.kit.discover.installing import how_to_install, lacking


class NotInstalled(Exception):
    """A package is needed that is not installed."""

    def __init__(self, package: str, why: str = "", placeholder: Missing | None = None) -> None:
        super().__init__(why or f"{package} is not installed: {how_to_install(package)}")
        self.package, self.placeholder = package, placeholder


class Missing:
    """Anything of a missing package: it can be named, subscripted and looked into, but not called.

    why: what is missing if that is no package: a name that a file of the learner's lacks. at: its module, and the name.
    """

    def __init__(self, package: str, why: str = "", at: tuple[str, str] = ("", "")) -> None:
        self.__dict__.update(package=package, why=why, at=at)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        found = _known(name, self.package)
        return Missing(self.package, self.why) if found is None else found

    def __getitem__(self, key: Any) -> Missing:
        return self

    def __or__(self, other: Any) -> Missing:
        return self

    __ror__ = __or__

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return ()

    def __call__(self, *args: Any, **options: Any) -> Any:
        raise NotInstalled(self.package, self.why, self)

    def __iter__(self) -> Iterator[Any]:
        raise NotInstalled(self.package, self.why, self)


WORDS = {"gpt2": 50257, "r50k_base": 50257, "p50k_base": 50281, "cl100k_base": 100277, "o200k_base": 200019}


class Vocabulary(Missing):
    """What tiktoken.get_encoding("gpt2") gives: how many words it has, everybody knows; what they are, it alone."""

    def __init__(self, name: str = "gpt2", *given: Any, **options: Any) -> None:
        super().__init__("tiktoken")
        n = WORDS.get(name, WORDS["cl100k_base"])
        self.__dict__.update(name=name, n_vocab=n, max_token_value=n - 1, eot_token=min(n - 1, 100257))


def _known(name: str, package: str) -> Any:
    """What stands in for a name of an absent package, where everybody knows what it is; else None."""
    is_vocabulary = package == "tiktoken" and name in ("get_encoding", "encoding_for_model")
    return Vocabulary if is_vocabulary else familiar.named(name, package)


def stand_in(
    node: ast.Import | ast.ImportFrom, error: Exception, module: types.ModuleType, own: str, names: Iterable[str]
) -> None:
    """Puts placeholders where a failed import statement would have put names.

    own: the learner's file that it names, which is there but lacks them. names: what a star would have brought.
    """
    package = (getattr(error, "name", None) or getattr(node, "module", None) or node.names[0].name).split(".")[0]
    for alias in node.names:
        if isinstance(node, ast.Import):
            _import(alias, package, module)
        elif alias.name != "*":
            known = getattr(sys.modules.get(f"{node.module}"), alias.name, None)
            missing = _missing(alias.name, package, own, node, error)
            setattr(module, alias.asname or alias.name, known or _known(alias.name, package) or missing)
    for name in names:
        setattr(module, name, _missing(name, package, own, node, error))


def _missing(name: str, package: str, own: str, node: ast.stmt, error: Exception) -> Missing:
    if not own:
        asked = error.name if isinstance(error, ModuleNotFoundError) else f"{getattr(node, 'module', '')}.{name}"
        return Missing(package, lacking(asked))
    return Missing(package, f"there is no {name} in {own}", (getattr(node, "module", None) or "", name))


def settle(modules: Iterable[types.ModuleType]) -> None:
    """Puts what a file has defined meanwhile in place of what it lacked, for files that import each other."""
    for module in modules:
        for name, value in list(vars(module).items()):
            place, wanted = value.at if isinstance(value, Missing) else ("", "")
            found = getattr(sys.modules.get(place), wanted, value) if place else value
            if found is not value:
                setattr(module, name, found)


def _import(alias: ast.alias, package: str, module: types.ModuleType) -> None:
    try:
        found: Any = __import__(alias.name)
        if alias.asname:
            for part in alias.name.split(".")[1:]:
                found = getattr(found, part)
    except ImportError:
        found = Missing(package, lacking(alias.name))
    setattr(module, alias.asname or alias.name.split(".")[0], found)


def used(module: types.ModuleType) -> list[str]:
    """The packages that have placeholders in a namespace."""
    return sorted({value.package for value in vars(module).values() if isinstance(value, Missing) and not value.why})
