"""Lets a learner's code that is loaded run as a repaired text has it: its functions get other code, and stay the same.

So do its classes: whatever was found out about them, and whoever holds them, sees them repaired.
"""

from __future__ import annotations
import __future__

import ast
import functools
import inspect
import linecache
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

from scratch_transformer.kit.definitions import text_of_file
from scratch_transformer.kit.discover.load import Loaded
from scratch_transformer.kit.repair.edits import Repair, edited

Undo = Callable[[], None]
ROOT = __name__.partition(".repair")[0]


def install(repair: Repair) -> Undo | None:
    """Makes the repair. Returns what takes it back; None if it cannot be made, and nothing is changed."""
    if repair.brought:
        return _bring(repair)
    before = text_of_file(repair.file)
    after = edited(before, repair.edits) if repair.edits else ""
    codes = _codes(after, repair.file) if after and after != before else {}
    changed = [(function, code) for function, code in _changed(repair, codes) if code != function.__code__]
    if not changed or any(code.co_freevars != function.__code__.co_freevars for function, code in changed):
        return None
    own = [(function, function.__code__) for function, _ in changed]
    _give(changed, after, repair.file)
    if repair.renamed is None:
        return functools.partial(_give, own, before, repair.file)
    cls, old, new = repair.renamed
    _rename(cls, old, new)

    def undo() -> None:
        _rename(cls, new, old)
        _give(own, before, repair.file)

    return undo


def _bring(repair: Repair) -> Undo:
    repair.namespace.update(repair.brought)
    forget()

    def undo() -> None:
        for name in repair.brought:
            repair.namespace.pop(name, None)
        forget()

    return undo


def run(text: str, node: ast.ClassDef, loaded: Loaded) -> Any:
    """The class that a text has in the place of one that could not be defined, which it defines."""
    (again,) = [one for one in ast.parse(text).body if isinstance(one, ast.ClassDef) and one.lineno == node.lineno]
    exec(compile(ast.Module([again], []), loaded.source.path, "exec"), loaded.module.__dict__)
    return vars(loaded.module)[again.name]


def show(text: str, file: str) -> str:
    """Lets a file have another text for whoever asks. Returns what it had."""
    before = text_of_file(file)
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    forget()
    return before


def _give(codes: list[tuple[FunctionType, CodeType]], text: str, file: str) -> None:
    for function, code in codes:
        function.__code__ = code
    show(text, file)


def _rename(cls: type, old: str, new: str) -> None:
    method = vars(cls)[old]
    delattr(cls, old)
    method.__name__, method.__qualname__ = new, f"{cls.__qualname__}.{new}"
    setattr(cls, new, method)
    forget()


def forget() -> None:
    """What the kit has read of code is read again."""
    modules = [module for name, module in [*sys.modules.items()] if name.startswith(ROOT)]
    for value in {id(v): v for module in modules for v in vars(module).values() if hasattr(v, "cache_clear")}.values():
        if isinstance(value, functools._lru_cache_wrapper):
            value.cache_clear()


def _codes(text: str, file: str) -> dict[tuple[int, str], CodeType]:
    """The code of all functions of a text, by their first lines and names; {} if it cannot be compiled."""
    try:
        whole = compile(text, file, "exec", flags=__future__.annotations.compiler_flag, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    found: dict[tuple[int, str], CodeType] = {}
    waiting = [whole]
    while waiting:
        code = waiting.pop()
        waiting += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        if not code.co_name.startswith("<"):
            found[code.co_firstlineno, code.co_name] = code
    return found


def _changed(repair: Repair, codes: dict[tuple[int, str], CodeType]) -> Iterator[tuple[FunctionType, CodeType]]:
    """The functions of a file, with the code that they have in the other text."""
    cls, old, new = repair.renamed or (None, "", "")
    for function in _functions(repair.namespace, repair.file):
        code = function.__code__
        is_renamed = cls is not None and vars(cls).get(old) is function
        if (other := codes.get((code.co_firstlineno, new if is_renamed else code.co_name))) is not None:
            yield function, other


def _functions(namespace: dict[str, Any], file: str) -> list[FunctionType]:
    """All functions and methods that a file defines, those inside of classes of classes and behind decorators too."""
    waiting, seen, found = [*namespace.values()], set(), []
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, type) and value.__module__ == namespace.get("__name__"):
            waiting += vars(value).values()
        elif isinstance(value, property):
            waiting += [value.fget, value.fset]
        elif isinstance(value, (staticmethod, classmethod)):
            waiting.append(value.__func__)
        elif isinstance(value, FunctionType):
            found += [value] if value.__code__.co_filename == file else []
            waiting += [inspect.unwrap(value)] if hasattr(value, "__wrapped__") else []
    return found
