"""What is said of a class with layers and a forward that is no nn.Module: nothing is given its weights (B10)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from torch import nn

from scratch_transformer.kit.arrays.classes import unwrapped
from scratch_transformer.kit.definitions import (
    is_module_class,
    is_of_torch,
    lines_of,
    meant_by,
    namespace_of,
    nodes_of,
    tree_of,
)
from scratch_transformer.kit.discover.target import Source
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.report.finding import Result
from scratch_transformer.kit.resolve import likeness
from scratch_transformer.kit.results.locating import named

OFFERS = {"parameters", "get_parameters", "params", "state_dict"}
"""What such a class has that hands its layers' weights on itself."""
CALLED = {"forward", "__call__"}
FIX = "class {0}(nn.Module):, and super().__init__() as the first line of its __init__."


def result(name: str, cls: Any, source: Source) -> Result | None:
    """B10 of what its name says is a component; None of anything else."""
    kind = likeness.kind_named(name, KINDS)
    layers = [*dict.fromkeys(_layers_of(cls))] if _is_plain(cls) else []
    if kind is None or not layers:
        return None
    lines, line = lines_of(cls)
    head = next((number for number, text in enumerate(lines) if text.lstrip().startswith("class ")), 0)
    said = f"{name} is no nn.Module: what it is a part of does not see the weights of its {' and '.join(layers)}."
    if "__call__" not in vars(cls):
        said += f" And it can only be called by the name of its forward: layer(x) stops, as a {name} is not callable."
    found = Result(name, source.where(line + head), kind, "mistake", what=KINDS[kind].what)
    put = [f"class {name}(nn.Module):"] if not unwrapped(cls).__bases__[1:] else []
    finding = Finding(MISTAKES["B10"], said, fix=FIX.format(name))
    found.mistakes = [named(finding, source, line + head, put)]
    return found


def _is_plain(cls: Any) -> bool:
    """Whether a class has a forward, is no module, and leaves its weights to whoever has it."""
    if not isinstance(cls, type) or issubclass(cls, nn.Module) or not CALLED & vars(cls).keys():
        return False
    thing: Any = cls
    written = getattr(tree_of(thing), "bases", [])
    if written and cls.__bases__ == (object,) and [ast.unparse(base) for base in written] != ["object"]:
        return False  # of a package that is not installed
    beside = namespace_of(cls).values()
    is_mixed_in = any(isinstance(one, type) and issubclass(one, (cls,)) and one is not cls for one in beside)
    return not OFFERS & {*dir(cls)} and not is_mixed_in


def _layers_of(cls: type) -> Iterator[str]:
    """The layers with weights that its constructor keeps, as it writes them: nn.Linear."""
    calls = [ast.unparse(node.func) for node in nodes_of(vars(cls).get("__init__"), ast.Call)]
    for path in calls:
        made = meant_by(path, namespace_of(cls))
        if is_module_class(made) and is_of_torch(made) and _has_weights(made):
            yield path


def _has_weights(made: type) -> bool:
    """Whether a module of torch's has any, whatever it is told: a dropout, a ReLU and a loss have none."""
    return issubclass(made, (nn.Linear, nn.Embedding, nn.LayerNorm, nn.MultiheadAttention, nn.modules.conv._ConvNd))
