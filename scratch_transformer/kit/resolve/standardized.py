"""Functions that standardize other numbers than features of tokens: rewards, prices, images, a column of a table."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

STANDARDIZES = "it standardizes {}: other numbers than the features of tokens"
NUMBERS = re.compile(
    r"rewards?|returns?|advantages?|images?|imgs?|pixels?|prices?|audio|waveforms?|signals?|spectrograms?|series|targets?"
    r"|labels?|grades?"
)
"""One of a sample, or of what no Transformer's norm is given, whatever axis they are standardized along."""
OF_MANY = re.compile(r"data|samples?|scores?|columns?|weights?|grad(ient)?s?|values?|loss(es)?|counts?|similarities")
"""What may have features; not where its mean is one over all, or over the first axis."""
SPREADS = ("std", "var", "std_mean", "var_mean")


def standardizes(tree: Any) -> str:
    """What a function brings to mean 0 and variance 1 that are no features, by its own name or its input's; else ""."""
    taken = [*_statistics(tree)]
    spreads = [axis for name, axis in taken if name in SPREADS]
    if not spreads or not any(name.endswith("mean") for name, _ in taken):
        return ""
    given = [*tree.args.posonlyargs, *tree.args.args][:1]
    words = [word for name in (tree.name, *(one.arg for one in given)) for word in name.lower().split("_")]
    is_over_many = all(axis in ("", "0", "(0,)") for axis in spreads)
    named = next((w for w in words if NUMBERS.fullmatch(w) or (is_over_many and OF_MANY.fullmatch(w))), "")
    return STANDARDIZES.format(named) if named else ""


def _statistics(tree: Any) -> Iterator[tuple[str, str]]:
    """The means and deviations that are taken, and the axis of each: "" where it is taken over all numbers."""
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = getattr(call.func, "attr", "")
        if name in ("mean", *SPREADS):
            by_name = [one.value for one in call.keywords if one.arg in ("dim", "axis")]
            is_of_torch = isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) in ("torch", "np", "t")
            yield name, next((ast.unparse(one) for one in [*by_name, *call.args[is_of_torch:]]), "")
