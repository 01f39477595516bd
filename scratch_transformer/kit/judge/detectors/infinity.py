"""Numbers that are too large: a mask times infinity (A4), whose NaN no recipe has, as it equals nothing; the loss of
large logits (A26), all alike, which log_softmax takes as well as small ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from scratch_transformer.kit.judge.frames import DONE_AT, line_now
from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import ROUNDED, Session, distance
from scratch_transformer.kit.kind import Finding, Probe
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.attention import CUT_OFF, ZERO_TIMES_INFINITY
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


LIMITS = ("clamp", "clamp_", "clip", "clip_", "clamp_max", "clamp_max_", "minimum", "min")
SHIFT = 1000.0
"""Added to all logits: their differences, and with them the loss, stay what they were."""


class _CutOff(TorchFunctionMode):
    """At which line of a learner's numbers above 1, which no probabilities are, are made smaller by a limit."""

    line = ""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = args[0].clone() if args and isinstance(args[0], Tensor) else None
        output = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        left = args[0] if name == "__setitem__" else output if name in LIMITS else None  # powers[powers > 1e12] = 1e12
        if self.line or given is None or not isinstance(left, Tensor) or given.shape != left.shape:
            return output
        if bool(((given > 1) & (left < given)).any()):
            self.line = line_now()
        return output


def overflowing_loss(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """A26: NaN, or another number where exp(x) is cut off, for logits of 1000, of what fits small ones."""
    if session.kind.name != "Loss" or best is None or not best.recipe.loss_input.startswith("logits"):
        return
    small = session.ran[0].probe
    probe = Probe("large", {**small.inputs, "logits": small.inputs["logits"] + SHIFT}, shows="logits of about 1000")
    with torch.no_grad(), _CutOff() as limit:
        result = session.run(probe)
    if result.output is None or distance(result.output, session.variant(best.recipe, probe), probe) <= ROUNDED:
        return
    if not bool(torch.as_tensor(result.output).isfinite().all()):
        yield Finding(MISTAKES["A26"], f"On {probe.shows}, the loss is infinite or NaN (not a number).", fix=OF_LOSSES)
    elif limit.line:
        right = "PyTorch's, which is that of the same logits without the 1000"
        number = torch.as_tensor(result.output).double().mean().item()
        said = f"On {probe.shows}, the loss is {number:.3g}, not {right}. {DONE_AT}{limit.line}"
        yield Finding(MISTAKES["A26"], said, CUT_OFF, fix=OF_LOSSES)


OF_LOSSES = "F.cross_entropy(logits, target), or torch.log_softmax(logits, -1), which subtract the largest logit first."


INFINITY = ((("A4",), zero_times_infinity), (("A26",), overflowing_loss))
