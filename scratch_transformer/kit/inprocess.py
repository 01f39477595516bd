"""Checks an object that is here already, in this process: an instance, a class or a function."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from typing import Any

from torch import nn

from scratch_transformer.kit.checking import Checking
from scratch_transformer.kit.definitions import lines_of, text_of_file
from scratch_transformer.kit.discover.target import Source
from scratch_transformer.kit.judge.diagnose import diagnose
from scratch_transformer.kit.kind import Kind
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.report.finding import Result
from scratch_transformer.kit.resolve import guess
from scratch_transformer.kit.resolve.library.library import Library
from scratch_transformer.kit.resolve.names.words import plain
from scratch_transformer.kit.resolve.trial import MISTAKEN
from scratch_transformer.kit.resolve.trials.match import resolve
from scratch_transformer.kit.resolve.trials.outcome import Outcome


def check_here(thing: Any, kind: str | None, settings: Mapping[str, Any]) -> Result:
    """See `kit.check`."""
    is_instance = isinstance(thing, nn.Module)
    cls = type(thing) if is_instance else thing
    name = getattr(cls, "__name__", str(cls))
    kinds = (kind_called(kind),) if kind else guess.kinds_of(name, cls, KINDS)
    if not kinds:
        raise ValueError(f"check: the name {name} tells no kind of component; give one: {', '.join(KINDS)}")
    checking = Checking({}, None, lambda *_, **__: None)
    checking.library.add(cls, kinds)
    made = copy.deepcopy(thing) if is_instance else thing
    best = None
    for one in kinds:
        wanted = {**({} if not is_instance else _read(made, KINDS[one].defaults)), **settings}
        outcome = _resolved(made, KINDS[one], checking.library, wanted)
        best = outcome if outcome.beats(best) else best
        if outcome.score[0] == 0:
            break
    assert best is not None
    if best.candidate is not None:
        checking.library.resolved[cls] = best.candidate  # as what is built again is called
    diagnosis = diagnose(best.candidate) if best.candidate is not None else None
    return checking.results.of(name, _source(cls), _line(cls), cls, best, diagnosis)


def _resolved(made: Any, kind: Kind, library: Library, wanted: Mapping[str, Any]) -> Outcome:
    """As what is right, called in any way; else as what has a mistake, in the first way that explains it."""
    library.thorough = False
    outcome = resolve(made, kind, library, wanted)
    library.thorough = True
    return outcome if outcome.score[0] < MISTAKEN else resolve(made, kind, library, wanted)


def kind_called(given: str) -> str:
    """The kind of this name, whatever its case; a synonym will do.

    Raises:
        ValueError: there is none.
    """
    for name in KINDS:
        if plain(given) == plain(name):
            return name
    for name, kind in KINDS.items():
        if plain(given) in map(plain, kind.synonyms):
            return name
    raise ValueError(f"no kind of component is called {given!r}; known are {', '.join(KINDS)}")


def _read(module: nn.Module, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Settings from the attributes and shapes of an instance."""
    from scratch_transformer.kit.resolve.build.instance import attribute

    found: dict[str, Any] = {}
    for name in defaults:
        value = attribute(module, name)
        if value is not None:
            found[name] = value
    shapes = [tuple(values.shape) for values in module.parameters()]
    sizes = [size for shape in shapes for size in shape if size > 1]
    if "d_model" in defaults and sizes and found.get("d_model") not in sizes:
        found["d_model"] = max(set(sizes), key=lambda size: (sizes.count(size), -size))
    return found


def _source(cls: Any) -> Source:
    try:
        path = inspect.getsourcefile(cls) or "?"
    except (OSError, TypeError):  # a built-in class; a class of a notebook's cell
        path = "?"
    return Source(path, text_of_file(path), module=getattr(cls, "__module__", ""))


def _line(cls: Any) -> int:
    try:
        return lines_of(cls)[1]
    except (OSError, TypeError):
        return 0
