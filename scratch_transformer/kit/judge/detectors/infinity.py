"""A4, of what multiplies infinity by 0: no recipe has its numbers, as NaN equals nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from scratch_transformer.kit.judge.frames import DONE_AT, line_now
from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import ROUNDED, Session, distance
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.attention import ZERO_TIMES_INFINITY
from scratch_transformer.kit.recipe import RIGHT

PRODUCTS = ("mul", "mul_", "multiply", "__mul__", "__rmul__", "__imul__")


class Products(TorchFunctionMode):
    """At which line of a learner's a product of numbers, some of them infinite, is NaN first."""

    line = ""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        is_product = not self.line and getattr(func, "__name__", "") in PRODUCTS and isinstance(output, Tensor)
        if is_product and bool(output.isnan().any()) and not any(torch.as_tensor(one).isnan().any() for one in args):
            self.line = line_now()
        return output


def zero_times_infinity(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """A4: a mask times -∞, where 0 · ∞ is NaN; whether that is all that is wrong, the inputs without a mask show."""
    if best is not None:
        return
    masked = [result for result in session.ran if result.probe.has_mask]
    for result in masked:
        if result.output is None or bool(result.output.isfinite().all()):
            continue
        with torch.no_grad(), Products() as products:
            session.candidate(**result.probe.inputs)
        if products.line:
            free = [other for other in session.ran if other not in masked]
            recipes = [RIGHT.with_(design) for design in session.kind.designs.values()]
            is_all = any(
                all(distance(r.output, session.variant(recipe, r.probe), r.probe) <= ROUNDED for r in free)
                for recipe in recipes
            )
            said = f"With a mask there is NaN in its outputs, as 0 times infinity is NaN. {DONE_AT}{products.line}"
            yield Finding(MISTAKES["A4"], said, ZERO_TIMES_INFINITY, explains=is_all)
            return


INFINITY = ((("A4",), zero_times_infinity),)
