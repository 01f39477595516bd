"""Runs a source to get its classes and functions; what cannot be run as a whole is salvaged statement by statement.

For the child process only.
"""

from __future__ import annotations

import ast
import builtins
import io
import linecache
import os
import re
import sys
import traceback
import types
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scratch_transformer.kit.discover import (
    answering,
    arguments,
    decorated,
    namesakes,
    open_defaults,
    packages,
    placeholders,
    repair,
    scripted,
    standins,
    survey,
)
from scratch_transformer.kit.discover.installing import how_to_install, lacking
from scratch_transformer.kit.discover.sandbox import Guard, Offline, TimeUp, time_limit
from scratch_transformer.kit.discover.target import Source

IMPORT_SECONDS = 10.0
STATEMENT_SECONDS = 2.0
REPAIRED = "__repaired__"
"""Of a module: sentences on the lines of its file that were left out, and with them, perhaps, what they define."""
LEFT_OUT = "__left_out__"
"""Of a module: the text of those lines."""
_FOLDERS: set[str] = set()
_OPEN = io.open
_LOADED: dict[str, Loaded] = {}
_SALVAGING: set[str] = set()
"""Files that are being salvaged because others import them, for those that import each other."""


@dataclass
class Loaded:
    """A source's namespace. problem: why it could not be imported as it is, a sentence, and `line` where.

    salvaged: only imports, definitions and constants were run. missing: packages that are not installed. notes: what
    was left out and imports that were supplied, sentences. undefined: classes that could not be defined, and why.
    """

    source: Source
    module: types.ModuleType
    problem: str = ""
    line: int | None = None
    salvaged: bool = False
    missing: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    undefined: list[tuple[ast.ClassDef, BaseException]] = field(default_factory=list)


def load(source: Source, guard: Guard, salvage: bool = False) -> Loaded:
    """The namespace of a source: whole if it can be imported, or else what can be saved of it."""
    notes: list[str] = []
    known, whole = survey.survey(source), source.text
    if known.error:
        source, notes = repair.repaired(source)
        if not notes:
            return Loaded(source, _module(source), known.error)
        known = survey.survey(source)
    namesakes.turn_to(source.folder)
    standins.install(source.folder)
    packages.prepare(source, guard)
    before = _already(source, salvage)
    if before is not None:
        return before
    module = _module(source)
    module.__dict__[REPAIRED] = tuple(notes)
    module.__dict__[LEFT_OUT] = repair.left_out(whole, source.text) if notes else ""
    supplied = repair.supply(module.__dict__, dict.fromkeys(repair.assumed(source).values()))
    loaded = _loaded(source, module, guard, known, salvage)
    is_by_star = re.search(r"^\s*from\s+\S+\s+import\s+\*", source.text, re.MULTILINE) is not None
    if supplied and (loaded.salvaged or not is_by_star):  # else it has them from there
        said = (
            "it imports names by *; assumed to be" if is_by_star else "it uses names that it does not import; assumed"
        )
        notes.append(f"{said}: {'; '.join(supplied)}")
    decorated.reveal(module)
    answering.settle(module)
    for name in standins.used():
        notes.append(f"{name} is not installed; the kit's own functions stood in for it")
    loaded.notes = [*notes, *loaded.notes]
    _LOADED[source.path] = loaded
    placeholders.settle(one.module for one in _LOADED.values())
    return loaded


def _already(source: Source, salvage: bool) -> Loaded | None:
    """What is there because another of the learner's files has imported it: then its classes are the same."""
    whole = packages.imported(source)
    if whole is not None:
        _read_beside(source)
        return Loaded(source, whole)
    before = _LOADED.get(source.path)
    if (
        before is None
        or salvage
        or before.source != source
        or sys.modules.get(before.module.__name__) is not before.module
    ):
        return None
    return before


def _loaded(source: Source, module: types.ModuleType, guard: Guard, known: survey.Survey, salvage: bool) -> Loaded:
    if salvage or known.trains:
        problem = (
            _trains(source, known.trains) if known.trains else "importing it took too long, or took the process down"
        )
        return _salvage(source, module, guard, problem, known.trains)
    before = dict(module.__dict__)
    try:
        tree = survey.parse(source)
        with guard.on(), time_limit(IMPORT_SECONDS), scripted.as_python(), arguments.defaults():
            exec(compile(tree, source.path, "exec"), module.__dict__)
    except BaseException as error:  # SystemExit and TimeUp too: nothing that the learner's code does ends the check
        problem, line = _reason(error, source)
        module.__dict__.clear()
        module.__dict__.update(before)
        lacking = error.name if isinstance(error, ModuleNotFoundError) else None
        if lacking and packages.finds(lacking.partition(".")[0], source):  # another of the learner's files imports it
            return _loaded(source, module, guard, known, salvage)
        return _salvage(source, module, guard, problem, line)
    return Loaded(source, module)


def _module(source: Source) -> types.ModuleType:
    """An empty module that imports like the file: siblings are found, relative imports work."""
    is_package = packages.is_package(source)
    is_free = "." in source.module or is_package or source.module not in sys.modules
    is_free &= not source.cells  # a package of that name may be what a notebook imports, while nobody imports it
    name = source.module if is_free else namesakes.unused(f"{source.module}_checked")
    module = types.ModuleType(name)
    module.__file__ = source.path
    module.__package__ = name if is_package else name.rpartition(".")[0]
    if is_package:
        module.__path__ = [os.path.dirname(source.path)]
    module.__dict__["display"] = lambda *values, **options: None  # what notebooks have
    module.__dict__["get_ipython"] = lambda: placeholders.Missing("IPython")
    sys.modules[name] = module
    lines = source.text.splitlines(keepends=True)
    linecache.cache[source.path] = (len(source.text), None, lines, source.path)  # a notebook's too, and a repaired text
    _read_beside(source)
    return module


def _read_beside(source: Source) -> None:
    """Relative paths are read beside the learner's file. The working folder is another, where writing is allowed."""
    _FOLDERS.add(os.path.dirname(source.path))
    builtins.open = _open_beside


def _open_beside(file: Any, *args: Any, **options: Any) -> Any:
    if isinstance(file, (str, os.PathLike)) and not os.path.exists(file):
        beside = (os.path.join(folder, os.fspath(file)) for folder in sorted(_FOLDERS))
        file = next(filter(os.path.exists, beside), file)
        if not os.path.exists(file) and set("wax") & set(str(args[0] if args else options.get("mode", "r"))):
            _make_folder(os.path.dirname(os.path.abspath(file)))
    return _OPEN(file, *args, **options)


def _make_folder(folder: str) -> None:
    """For a log file in logs/: within the working folder, where writing is allowed."""
    if folder.startswith(os.getcwd() + os.sep):
        os.makedirs(folder, exist_ok=True)


# ---- Salvage ----


def _trains(source: Source, line: int) -> str:
    if source.cells:  # nobody imports it
        return f"it trains, or asks for gradients ({source.where(line)}), which is not done here"
    return f'it trains when it is imported ({source.where(line)}): put that under if __name__ == "__main__":'


def _salvage(source: Source, module: types.ModuleType, guard: Guard, problem: str, line: int | None) -> Loaded:
    """Imports, definitions and constants only; what fails is left out, what is not installed has a placeholder."""
    loaded = Loaded(source, module, problem, line, salvaged=True)
    for node in survey.parse(source).body:
        if not (survey.is_harmless(node) or survey.settles(node)):
            continue
        try:
            with guard.on(), time_limit(STATEMENT_SECONDS), scripted.as_python(), arguments.defaults():
                loaded.notes += _run(node, source, module, guard)
        except BaseException as error:
            loaded.missing += [error.package] if isinstance(error, placeholders.NotInstalled) else []
            loaded.undefined += [(node, error)] if isinstance(node, ast.ClassDef) else []
    loaded.missing += [name for name in placeholders.used(module) if name not in loaded.missing]
    return loaded


def _run(node: ast.stmt, source: Source, module: types.ModuleType, guard: Guard) -> list[str]:
    """Runs it; what is not there of an import has a placeholder, decorators that are not there or stop are left out.

    Those that stop are told of, in sentences.
    """
    said: list[str] = []
    while True:
        try:
            _execute(node, source, module)
            return said
        except Exception as error:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                if not _salvage_siblings(node, source, module, guard):
                    names = repair.unbound(source, module) if _is_star(node) else []
                    own = [file.where(None) for _, file in packages.siblings(node, module.__package__, source)]
                    placeholders.stand_in(node, error, module, own[0] if own else "", names)
                return said
            if open_defaults.leave_open(node, _lines(error, source), survey.parse(source), module):
                continue
            if isinstance(error, placeholders.NotInstalled):
                if not decorated.without_missing(node, module):
                    raise
                continue
            is_second = decorated.AGAIN.search(str(error)) is not None
            stops, line = decorated.without_one_at(
                node, _lines(error, source), survey.parse(source) if is_second else None
            )
            if not stops:
                raise
            if is_second:
                continue  # it was run before, as what another file imports
            said.append(f"the decorator {stops} was left out ({source.where(line)}), as it stops: {in_short(error)}")


def _salvage_siblings(node: ast.stmt, source: Source, module: types.ModuleType, guard: Guard) -> bool:
    """Whether an import works once those of the learner's own files that cannot be imported are salvaged too."""
    for name, sibling in packages.siblings(node, module.__package__, source):
        if sibling.path not in _SALVAGING:
            _SALVAGING.add(sibling.path)
            try:
                sys.modules.setdefault(name, load(sibling, guard).module)
            finally:
                _SALVAGING.discard(sibling.path)
                namesakes.turn_to(source.folder)
    try:
        _execute(node, source, module)
    except Exception:  # whatever the learner's other file does
        return False
    return True


def _is_star(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names)


def _execute(node: ast.stmt, source: Source, module: types.ModuleType) -> None:
    exec(compile(ast.Module([node], []), source.path, "exec"), module.__dict__)


# ---- Why ----


def _reason(error: BaseException, source: Source) -> tuple[str, int | None]:
    """Why an import failed, for people, and the line of the learner's file where it did."""
    line = next(iter(_lines(error, source)), None)
    place = f" ({source.where(line)})" if line else ""
    return f"{_sentence(error)}{place}", line


def _lines(error: BaseException, source: Source) -> list[int]:
    """The lines of the learner's file that an error went through, the innermost first."""
    frames = reversed(traceback.extract_tb(error.__traceback__))
    return [frame.lineno for frame in frames if frame.filename == source.path and frame.lineno is not None]


def in_short(error: BaseException) -> str:
    """What is raised, in one line of 300 characters at most."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def _sentence(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return "it calls sys.exit() when it is imported"
    if isinstance(error, TimeUp):
        return f"importing it does not end ({error}): an endless loop, or training?"
    if isinstance(error, Offline) or _is_offline(error):
        return "it wants to download something when it is imported, and there is no network while it is checked"
    if isinstance(error, ModuleNotFoundError):
        why = lacking(error.name) or f"which is not installed: {how_to_install(error.name or '')}"
        return f"it imports {_asking(error)}{error.name}, {why.replace('there is', 'and there is', 1)}"
    if isinstance(error, EOFError):
        return "it asks for input when it is imported"
    return f"importing it fails with {in_short(error)}"


def _asking(error: BaseException) -> str:
    """The installed package that asks for what an import lacks: "lightning, which needs "; "" if it is the learner."""
    files = [Path(frame.filename).parts for frame in traceback.extract_tb(error.__traceback__)]
    inside = (parts[parts.index(folder) + 1 :] for parts in files for folder in standins.INSTALLED if folder in parts)
    package = next((Path(parts[0]).stem for parts in inside if parts[0] != "scratch_transformer"), "")
    return f"{package}, which needs " if package else ""


def _is_offline(error: BaseException | None) -> bool:
    seen = 0
    while error is not None and seen < 10:
        if isinstance(error, Offline) or "network" in str(error) or "offline" in str(error).lower():
            return True
        error, seen = error.__cause__ or error.__context__, seen + 1
    return False
