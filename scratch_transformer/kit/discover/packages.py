"""Files that belong together: one of a package is loaded as that, with its siblings, whatever else the package needs.

For the child process only.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.abc
import importlib.util
import itertools
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scratch_transformer.kit.discover import survey
from scratch_transformer.kit.discover.installing import is_there
from scratch_transformer.kit.discover.sandbox import Guard, time_limit
from scratch_transformer.kit.discover.target import Source, find
from scratch_transformer.kit.syntax import nodes_in, tree_from

PACKAGE_SECONDS = 10.0
MOST_FOLDERS = 4
"""How far above a file what it imports may lie."""
MARKS = (".git", "README.md", "requirements.txt", "pyproject.toml", "setup.py", "LICENSE")
"""What the first folder of a project holds."""
MOST_SEARCHED = 300


def prepare(source: Source, guard: Guard) -> None:
    """Makes what a source imports importable: its package is imported, or stood in for where that fails."""
    _add_roots(source)
    if _ANY_CASE not in sys.meta_path:
        sys.meta_path.append(_ANY_CASE)
    _ANY_CASE.folders |= {str(folder) for folder in _around(source)}
    names = source.module.split(".")
    depth = len(names) - (0 if is_package(source) else 1)
    folders = Path(source.path).parents
    for count in range(1, depth + 1):
        _import_package(".".join(names[:count]), folders[depth - count], guard)


class _AnyCase(importlib.abc.MetaPathFinder):
    """Asked last: Rope.py for `import RoPE`, as file systems do that do not tell capitals from small letters.

    folders: of the learner's; only there.
    """

    def __init__(self) -> None:
        self.folders: set[str] = set()

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        name = fullname.rpartition(".")[2].lower()
        for folder in map(Path, path or sorted(self.folders & set(sys.path))):
            is_own = (
                bool(self.folders & {str(folder), *map(str, folder.parents)}) and "site-packages" not in folder.parts
            )
            entries = sorted(folder.iterdir()) if is_own and folder.is_dir() else []
            for entry in (entry for entry in entries if entry.stem.lower() == name):
                if entry.suffix == ".py" and not fullname.endswith(entry.stem):
                    return importlib.util.spec_from_file_location(fullname, entry)
        return None


_ANY_CASE = _AnyCase()
MOST_READ = 40
"""Files that one leads to."""


def is_package(source: Source) -> bool:
    """Is it the __init__.py of a package?"""
    return Path(source.path).name == "__init__.py"


def imported(source: Source) -> types.ModuleType | None:
    """The module of this file, if another that was loaded before has imported it whole: then its classes are those."""
    for module in list(sys.modules.values()):
        spec, file = getattr(module, "__spec__", None), getattr(module, "__file__", None)
        if file == source.path and spec is not None and not getattr(spec, "_initializing", False):
            return module
    return None


def siblings(node: ast.AST, package: str | None, source: Source) -> Iterator[tuple[str, Source]]:
    """The learner's own files that an import statement names, each with the name under which it does.

    package: of the file in which it stands.
    """
    for name in _modules_of(node, package):
        for root in dict.fromkeys([source.folder, *sys.path]):
            path = Path(root).joinpath(*name.split("."))
            for file in (path.with_suffix(".py"), path / "__init__.py"):
                if file.is_file() and _is_own(file, source) and file != Path(source.path):
                    yield from ((name, sibling) for sibling in find(str(file)).sources)
                    break


def leading_to(source: Source) -> list[Source]:
    """The learner's own files that a file imports, and those that they import, however deep: read, and not run."""
    found = [source]
    for one in found:
        package = one.module if is_package(one) else one.module.rpartition(".")[0]
        for node in nodes_in(tree_from(one.text), ast.stmt):
            own = (sibling for _, sibling in siblings(node, package, one))
            found += [sibling for sibling in own if all(sibling.path != other.path for other in found)]
            if len(found) > MOST_READ:
                return found[1:]
    return found[1:]


def beside(module: types.ModuleType, source: Source) -> Iterator[tuple[str, type]]:
    """The classes of the learner's other files that a module has imported, by itself or within their modules."""
    values = dict(vars(module))
    for value in list(values.values()):
        if isinstance(value, types.ModuleType) and _is_beside(value, source):
            values |= {name: inner for name, inner in vars(value).items() if name not in values}
    for name, value in values.items():
        home = sys.modules.get(getattr(value, "__module__", "")) if isinstance(value, type) else None
        if home is not None and home is not module and _is_beside(home, source):
            yield name, value


def _is_beside(module: types.ModuleType, source: Source) -> bool:
    file = getattr(module, "__file__", None)
    return bool(file) and str(file).endswith(".py") and _is_own(Path(str(file)), source)


def _modules_of(node: ast.AST, package: str | None) -> list[str]:
    """Full names of the modules that an import statement may load."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = (package or "").split(".") if node.level else []
    base = base[: len(base) - max(node.level - 1, 0)]
    start = ".".join([*filter(None, base), *filter(None, [node.module])])
    return [*filter(None, [start]), *(".".join(filter(None, [start, alias.name])) for alias in node.names)]


def _is_own(file: Path, source: Source) -> bool:
    """Is a file of the same project: below one of the few folders around the source that may hold it?"""
    if "site-packages" in file.parts and "site-packages" not in Path(source.path).parts:
        return False
    return any(folder in file.parents for folder in _around(source))


def _around(source: Source) -> list[Path]:
    folder = Path(source.path).parent
    return [folder, *list(folder.parents)[:MOST_FOLDERS]][: len(folder.parts) - 1]


def _add_roots(source: Source) -> None:
    """Folders from which its absolute imports work: `from models.layers import Block` in models/."""
    try:
        body = list(ast.walk(survey.parse(source)))
    except (SyntaxError, ValueError, RecursionError):
        return
    names = [alias.name for node in body if isinstance(node, ast.Import) for alias in node.names]
    names += [n.module for n in body if isinstance(n, ast.ImportFrom) and n.module and not n.level]
    for name in sorted({name.split(".")[0] for name in names} - set(sys.stdlib_module_names) - set(sys.modules)):
        if not finds(name, source) and _home_of(name, source) is None:
            _rename(name, {full.partition(".")[2] for full in names if full.startswith(f"{name}.")}, source)


def finds(name: str, source: Source) -> bool:
    """Whether a module, which could not be imported so far, now can: its folder is one of the learner's."""
    folder = _home_of(name, source)
    is_new = folder is not None and str(folder) not in sys.path
    if is_new:
        sys.path.append(str(folder))
    return is_new


def _home_of(name: str, source: Source) -> Path | None:
    """The folder that holds a module: above the file, or anywhere in its project, as sys.path.append would tell it."""
    above = _around(source)
    found = next((folder for folder in above if _holds(folder, name)), None)
    if found is not None or is_there(name):
        return found
    marked = [index for index, folder in enumerate(above) if any((folder / mark).exists() for mark in MARKS)]
    for folder in above[: marked[-1] + 1] if marked else above[:2]:
        found = next((path for path in _below(folder) if _holds(path, name)), None)
        if found is not None:
            return found
    return None


@functools.cache
def _below(folder: Path) -> list[Path]:
    """The folders in a folder and in those, not too many."""
    inside = (path for pattern in ("*", "*/*") for path in folder.glob(pattern))
    shown = (path for path in inside if path.is_dir() and not path.name.startswith((".", "__")))
    return sorted(itertools.islice(shown, MOST_SEARCHED))


def _rename(name: str, inside: set[str], source: Source) -> None:
    """A folder around the file that holds what is imported from a package is that package, whatever it is called."""
    for folder in _around(source):
        if inside and not is_there(name) and any(_holds(folder, part) for part in inside):
            _stand_in(name, folder)
            return


def _holds(folder: Path, name: str) -> bool:
    """Whether a module lies in a folder: data.metrics is data/metrics.py, or a folder of such."""
    path = folder.joinpath(*name.split("."))
    return path.with_name(f"{path.name}.py").is_file() or _holds_python(path)


def _holds_python(folder: Path) -> bool:
    """Files of Python, or folders of such: src/ in which there is only src/transformer/."""
    files = itertools.chain(folder.glob("*.py"), folder.glob("*/*.py")) if folder.is_dir() else ()
    return next(iter(files), None) is not None


def _import_package(name: str, folder: Path, guard: Guard) -> None:
    """Imports a package; an empty one that finds its modules stands in for one that cannot be imported."""
    known = sys.modules.get(name)
    if known is not None and str(folder) in map(str, getattr(known, "__path__", ())):
        return
    sys.modules.pop(name, None)
    file = folder / "__init__.py"
    trains = file.is_file() and survey.survey(find(str(file)).sources[0]).trains
    try:
        if trains:
            raise ImportError(name)
        with guard.on(), time_limit(PACKAGE_SECONDS):
            made = importlib.import_module(name)
        if str(folder) in map(str, getattr(made, "__path__", ())):
            return
    except BaseException:  # whatever the learner's package does; its modules may be fine all the same
        pass
    _stand_in(name, folder)


def _stand_in(name: str, folder: Path) -> None:
    """An empty package that finds the modules of a folder."""
    package = types.ModuleType(name)
    package.__path__ = [str(folder)]
    package.__package__ = name
    sys.modules[name] = package
