"""Masks that say of every key whether it is padding, and cannot hide the future: (batch, keys), whatever is tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from scratch_transformer.kit.resolve.call.beside import Causal, Open
from scratch_transformer.kit.resolve.call.masks import Form
from scratch_transformer.kit.resolve.call.plan import Plan

POLARITIES = ("True = may attend", "1 = may attend", "True = blocked", "0 or -inf, added")
OF_KEYS = ("(B, S)", "(B, 1, S)", "(B, 1, 1, S)")
OF_QUERIES = ("(T, S)", "(B, T, S)", "(B, 1, T, S)")
INSIDE = "causal inside"
"""How the shape of what was given the padding alone ends."""


def alone(plan: Plan, runs: Callable[[Plan], bool]) -> bool:
    """Whether the masks that a plan has for a token's own sequence are all of keys.

    runs: whether a call goes through. Of masks that the kind has no place for, all forms are tried.
    """
    own = [form for name, form in plan.masks.values() if name in ("mask", "tgt_mask")]
    if own:
        return all(form.shape.endswith(INSIDE) for form in own)
    nameless = [parameter for parameter, name, _ in plan.mask_parameters if not name]
    if len(nameless) != 1:
        return False
    return any(map(runs, _with(plan, nameless[0], Open, OF_KEYS))) and not any(
        map(runs, _with(plan, nameless[0], Causal, OF_QUERIES))
    )


def _with(plan: Plan, parameter: str, sort: type[Causal | Open], shapes: tuple[str, ...]) -> Iterator[Plan]:
    for shape in shapes:
        for polarity in POLARITIES:
            yield replace(plan, constants={**plan.constants, parameter: sort(Form(polarity, shape))})
