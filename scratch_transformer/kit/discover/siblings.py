"""Parts, and caches, that one is given, in files beside its own, which it does not import: main.py puts them together.

For the child process only.
"""

from __future__ import annotations

import difflib
import inspect
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scratch_transformer.kit.definitions import is_module_class, parameters_of
from scratch_transformer.kit.discover import load
from scratch_transformer.kit.discover.sandbox import Guard
from scratch_transformer.kit.discover.target import Source, files_beside, find

DEFINITION = re.compile(r"^class (\w+)\(.*Module", re.MULTILINE)
PLAIN = re.compile(r"^class (\w+)", re.MULTILINE)
MOST_LOADED = 8
ALIKE = 0.9
"""How much a parameter's name is a class's, one letter aside."""
LEAST_LETTERS = 6
SIZE = re.compile(r"_(s|sz|size|dims?|d|n|len)$|^(n|num|d)_")
"""How the name of a number begins or ends: embedding_s is none of Embedding's."""


def given_to(module: types.ModuleType, source: Source, guard: Guard) -> Iterator[tuple[type, type]]:
    """Each module class of a file with the classes of files beside it that its constructor's parameters are named for.

    Also those of such classes, however deep.
    """
    beside = _beside(Path(source.path))
    waiting = [value for value in vars(module).values() if _is_own(value, module)]
    loaded: set[str] = set()
    for cls in waiting:
        for name in _asked(cls) if beside else ():
            found = beside.get(name) or next(iter(difflib.get_close_matches(name, beside, 1, ALIKE)), None)
            path, defined = beside[found] if isinstance(found, str) else found or ("", "")
            if not path or len(loaded | {path}) > MOST_LOADED:
                continue
            loaded.add(path)
            part = vars(load.load(find(path).sources[0], guard).module).get(defined)
            if is_module_class(part):
                waiting += [part] if part not in waiting else []
                yield cls, part


def classes_called(name: re.Pattern[str], source: Source, guard: Guard) -> Iterator[type]:
    """Classes in the files beside one that are no modules, by their bare names."""
    for file in files_beside(Path(source.path)):
        named = PLAIN.findall(file.read_text(encoding="utf-8", errors="replace"))
        if any(name.search(_bare(one)) for one in named):
            defined = vars(load.load(find(str(file)).sources[0], guard).module)
            found = [defined.get(one) for one in named if name.search(_bare(one))]
            yield from (cls for cls in found if inspect.isclass(cls) and not is_module_class(cls))


def _asked(cls: type) -> list[str]:
    """Names of required parameters, as those of classes are, of which the class's own file has none."""
    here = {_bare(name) for name in getattr(inspect.getmodule(cls), "__dict__", {})}
    required = [p for p in parameters_of(cls) if p.default is p.empty and not SIZE.search(p.name)]
    names = [_bare(p.name) for p in required if p.annotation not in (int, float, bool, str)]
    return [name for name in names if len(name) >= LEAST_LETTERS and name not in here]


def _beside(path: Path) -> dict[str, tuple[str, str]]:
    """Module classes in the other files of a folder: bare name -> (file, name); of two, that in its own file."""
    found: dict[str, tuple[str, str]] = {}
    for file in files_beside(path):
        for name in DEFINITION.findall(file.read_text(encoding="utf-8", errors="replace")):
            if _bare(name) not in found or _bare(file.stem) == _bare(name):
                found[_bare(name)] = str(file), name
    return found


def _bare(name: str) -> str:
    return re.sub(r"(_cls|_class)$|[^a-z0-9]", "", name.lower())


def _is_own(value: Any, module: types.ModuleType) -> bool:
    return is_module_class(value) and value.__module__ == module.__name__
