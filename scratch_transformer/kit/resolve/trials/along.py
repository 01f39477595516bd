"""torch's attention that goes along the first dimension, as it does unless it is told batch_first=True."""

from __future__ import annotations

import functools
from collections.abc import Callable

from torch import nn

from scratch_transformer.kit.definitions import is_of_torch, source_of
from scratch_transformer.kit.resolve.call import documented
from scratch_transformer.kit.resolve.call.calling import USUAL

LENGTH_FIRST = USUAL[-1]


def attentions(made: object) -> list[nn.MultiheadAttention | nn.Transformer]:
    """Those of torch in what was made, and whole Transformers of torch, that go along the first dimension."""
    parts = made.modules() if isinstance(made, nn.Module) else ()
    return [one for one in parts if isinstance(one, (nn.MultiheadAttention, nn.Transformer)) and not one.batch_first]


def likely_first(orders: tuple[str, ...], made: object) -> tuple[str, ...]:
    """Orders of dimensions, the length first before the batch where attention goes along it and nothing is turned.

    What is called as it was written for goes first: there may be no time for the other.
    """
    if not isinstance(made, nn.Module) or not attentions(made):
        return orders
    own: list[type] = [type(part) for part in made.modules() if not is_of_torch(type(part))]
    if any(documented.TURNS.search(source_of(cls)) for cls in own):
        return orders
    return tuple(sorted(orders, key=lambda order: order != LENGTH_FIRST))


def turn(made: object) -> Callable[[], None] | None:
    """Lets them go along the second dimension. Returns what undoes that; None if there are none."""
    found = attentions(made)

    def tell(batch_first: bool) -> None:
        for one in found:
            one.batch_first = batch_first

    tell(True)
    return functools.partial(tell, False) if found else None
