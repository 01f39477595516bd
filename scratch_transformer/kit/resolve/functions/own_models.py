"""Which weights of a learner's own model shrink, in the places of the small model that rules of weight decay try."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from torch import nn

from scratch_transformer.kit.canonical.optimizing import to_optimize
from scratch_transformer.kit.definitions import meant_by, namespace_of
from scratch_transformer.kit.resolve.functions.weight_names import BIAS, NORM, SCALE

TABLE = re.compile(r"emb|pos|cls|^w[tp]e$", re.IGNORECASE)
"""In the name of a tensor that is added to words, or looked up."""
VECTORS = ("bias", "scale of a norm", "bias of a norm")


def models_for(function: Any, judged: Mapping[Any, Any]) -> Iterator[nn.Module]:
    """Those that were judged already and that it may be given, the likeliest first: of its own class; else of words.

    Copies, which the function may change: each is made when it is asked for.
    """
    owner = meant_by(function.__qualname__.rpartition(".")[0], namespace_of(function))
    made = {cls: made for cls, one in judged.items() if isinstance(made := getattr(one, "made", None), nn.Module)}
    if isinstance(owner, type):
        likely = [made[owner]] if owner in made else []
    else:  # wholes are judged after their parts
        likely = [one for one in reversed(made.values()) if "table" in _roles(one).values()]
    yield from map(copy.deepcopy, likely)


def as_of_the_small(model: nn.Module, found: Mapping[int, float]) -> list[float]:
    """Parameter -> whether it shrinks, as that for each parameter of the small model: what any of the sort does.

    Of vectors that the model has not, and tables, as the others do.
    """
    decisions: dict[str, float] = {}
    for name, role in _roles(model).items():
        decisions[role] = max(found.get(id(model.get_parameter(name)), -1.0), decisions.get(role, -1.0))
    of_vectors = max((decisions[role] for role in VECTORS if role in decisions), default=0.0)
    others = {**dict.fromkeys(VECTORS, of_vectors), "table": decisions.get("matrix", 1.0)}
    return [{**others, **decisions}[role] for role in _roles(to_optimize()).values()]


def _roles(model: nn.Module) -> dict[str, str]:
    """Parameter -> what it is: a table, a matrix, a bias, the scale or the bias of a norm; numbers of other use not."""
    found: dict[str, str] = {}
    for name, values in model.named_parameters():
        path, _, leaf = name.rpartition(".")
        part = model.get_submodule(path)
        if values.dim() > 1:
            found[name] = "table" if isinstance(part, nn.Embedding) or TABLE.search(leaf) else "matrix"
        elif BIAS.fullmatch(leaf):
            found[name] = "bias" if _has_matrix(part.parameters(recurse=False)) else "bias of a norm"
        elif leaf == "weight" or SCALE.fullmatch(leaf) or NORM.search(type(part).__name__):
            found[name] = "scale of a norm"
    return found


def _has_matrix(parameters: Iterable[nn.Parameter]) -> bool:
    return any(values.dim() > 1 for values in parameters)
