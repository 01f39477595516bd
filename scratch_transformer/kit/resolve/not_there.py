"""What something needs that is not there: a file, a vocabulary, a package."""

from __future__ import annotations

import inspect
import re
import typing
from pathlib import Path
from typing import Any

from scratch_transformer.kit.definitions import as_written, leads_to, names_in, namespace_of
from scratch_transformer.kit.discover.installing import is_there
from scratch_transformer.kit.discover.placeholders import Missing

NOT_LOADED = "it needs a file or a vocabulary that is not there"
NOT_INSTALLED = "it needs {}, which is not installed"
ABSENT_FILE = re.compile(r"no such file or directory|file not found", re.IGNORECASE)


def reads_what_is_absent(error: BaseException | None) -> bool:
    """Whether something stopped because a file that it reads is not there: of a learner, or of a tokenizer in Rust."""
    return isinstance(error, FileNotFoundError) or (error is not None and bool(ABSENT_FILE.search(str(error))))


def lacks(error: BaseException | None) -> str:
    """What something stopped for that is not there, a file or a package, in a few words; "" if for something else."""
    package, own = getattr(error, "package", ""), getattr(getattr(error, "placeholder", None), "why", "")
    if package and not own:
        return NOT_INSTALLED.format(package)
    if isinstance(error, ModuleNotFoundError) and error.name and not is_there(error.name.partition(".")[0]):
        return NOT_INSTALLED.format(error.name.partition(".")[0])
    return not_loaded(error) if reads_what_is_absent(error) else ""


def computes_with_absent(cls: Any) -> str:
    """That the methods of a class, or functions of the file that they call, use a package that is not installed."""
    used = [one for one in (cls, *leads_to(cls)) if one is cls or inspect.isfunction(one)]
    found = (namespace_of(one).get(name) for one in used for name in sorted(names_in(one)))
    absent = next((one for one in found if isinstance(one, Missing) and not one.why), None)
    return NOT_INSTALLED.format(absent.package) if absent is not None else ""


def asks_for_absent(thing: Any) -> str:
    """That a constructor is to be given an instance of a package that is not installed, by an annotation; else "".

    Or that a function uses one: tf.expand_dims(ids, 0).
    """
    used = map(thing.__globals__.get, thing.__code__.co_names) if inspect.isfunction(thing) else ()
    for one in used:
        if isinstance(one, Missing) and not one.why:
            return NOT_INSTALLED.format(one.package)
    for annotation in (parameter.annotation for parameter in as_written(thing)):
        is_text = isinstance(annotation, str)
        said = namespace_of(thing).get(re.split(r"\W", annotation)[0]) if is_text else annotation
        for one in (said, *typing.get_args(said)):
            if isinstance(one, Missing) and not one.why:
                return NOT_INSTALLED.format(one.package)
    return ""


def not_loaded(error: BaseException | None) -> str:
    """That a file is not there, and its name where that is known."""
    name = getattr(error, "filename", None)
    return f"{NOT_LOADED}: {Path(str(name)).name}" if name else NOT_LOADED
