"""Files of one name in several folders: what a file imports is what lies beside it, as where it is run there.

For the child process only.
"""

from __future__ import annotations

import sys
import types
from pathlib import Path

_ASIDE: dict[tuple[str, str], types.ModuleType] = {}
"""Modules that made way for others of the same name, by their folder and that name."""
_FOLDERS: set[str] = set()
"""That files were loaded from."""


def turn_to(folder: str) -> None:
    """Names mean what lies in a folder, as far as it has such files: modules of other folders make way for them."""
    _FOLDERS.add(folder)
    if folder in sys.path:
        sys.path.remove(folder)
    sys.path.insert(0, folder)
    own = _names_in(folder)
    for name, module in list(sys.modules.items()):
        home = _home_of(module, name) if name.partition(".")[0] in own else None
        if home is not None and home != folder and home in _FOLDERS:
            _ASIDE[home, name] = module
            _rename(module, name)
    for (home, name), module in list(_ASIDE.items()):
        if home == folder and name.partition(".")[0] in own and name not in sys.modules:
            sys.modules[name] = module


def unused(name: str) -> str:
    """A name that no module has: this one, or with a number behind it."""
    names = (name, *(f"{name}_{number}" for number in range(2, len(sys.modules) + 3)))
    return next(one for one in names if one not in sys.modules)


def _names_in(folder: str) -> set[str]:
    entries = Path(folder).iterdir() if Path(folder).is_dir() else ()
    return {entry.stem for entry in entries if entry.suffix == ".py" or (not entry.suffix and entry.is_dir())}


def _home_of(module: types.ModuleType, name: str) -> str | None:
    """The folder from which a module has this name."""
    file = getattr(module, "__file__", None)
    paths = [str(file)] if file else [*map(str, getattr(module, "__path__", ()))]
    if not paths:
        return None
    is_inside = Path(paths[0]).name == "__init__.py"  # a package's own file is one folder deeper
    above, depth = Path(paths[0]).parents, name.count(".") + is_inside
    return str(above[depth]) if depth < len(above) else None


def _rename(module: types.ModuleType, name: str) -> None:
    """Another name for good: by their module's name the code of classes and functions is found."""
    del sys.modules[name]
    if module.__name__ != name:
        return  # it has one
    module.__name__ = unused(f"{name}_elsewhere")
    sys.modules[module.__name__] = module
    for value in list(vars(module).values()):
        inner = list(vars(value).values()) if isinstance(value, type) else []
        for one in (value, *inner):
            if isinstance(one, (type, types.FunctionType)) and one.__module__ == name:
                one.__module__ = module.__name__
