"""B29: a part that keeps a size of its own defaults, which the whole is told and does not hand on: its heads."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator

from torch import nn

from scratch_transformer.kit.definitions import is_module_class, line_at, namespace_of, nodes_of, parameters_of
from scratch_transformer.kit.judge.frames import DONE_AT, in_one_line
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.resolve.names.settings import settings_of
from scratch_transformer.kit.syntax import is_open


def finding(thing: type[nn.Module], error: BaseException) -> Finding | None:
    """Of a class that fits with its own defaults, and stops with an error with other sizes."""
    for call, part, kept, told in _kept_by_parts(thing):
        said = f"{part.__name__} is not told its {kept.name}, and has {kept.default}, whatever {told} is; with another"
        said = f"{said} number the shapes do not fit: {in_one_line(error)}. {DONE_AT}{line_at(thing, call)}"
        return Finding(MISTAKES["B29"], said, settings_of(kept.name)[0], name=told)
    return None


def sizes(thing: type[nn.Module]) -> dict[str, int]:
    """What they are: {"num_heads": 8}."""
    return {settings_of(kept.name)[0]: kept.default for _, _, kept, _ in _kept_by_parts(thing)}


def _kept_by_parts(thing: type[nn.Module]) -> Iterator[tuple[ast.Call, type[nn.Module], inspect.Parameter, str]]:
    """The numbers that a class leaves to the defaults of the learner's parts that it makes, and what it is told them
    by itself.
    """
    module, own = namespace_of(thing), {settings_of(p.name)[:1]: p.name for p in reversed(parameters_of(thing))}
    for call in nodes_of(thing, ast.Call):
        part = module.get(call.func.id) if isinstance(call.func, ast.Name) else None
        if is_module_class(part) and not is_open(call):
            told = {word.arg for word in call.keywords}
            for parameter in parameters_of(part)[len(call.args) :]:
                meant = settings_of(parameter.name)[:1]
                if type(parameter.default) is int and parameter.name not in told and meant and meant in own:
                    yield call, part, parameter, own[meant]
