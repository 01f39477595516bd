"""B26: what works where source and target have the same number of tokens, and stops wherever they do not.

It is built and called as ever, without masks or with such as hide nothing; so nothing of a mask's form is at fault.
What is right with one length is none of this: that it needs one is harmless (A35), in a part and in the whole. Here
nothing explains it even then, and that it stops is what can be proved.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import nn

from scratch_transformer.kit.definitions import is_of_torch, lines_of, parameters_of
from scratch_transformer.kit.judge.detectors.behaviour import SPLIT
from scratch_transformer.kit.judge.frames import DONE_AT, STOPS_AT, in_one_line, learners_line
from scratch_transformer.kit.kind import Finding, Inputs, Kind
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.attention import OF_EXCHANGED, STOPS_UNEVEN
from scratch_transformer.kit.mistakes.construction import OF_SHAPES
from scratch_transformer.kit.resolve.call import calling, forwards
from scratch_transformer.kit.resolve.call.plan import MASKS, CannotCall, Plan
from scratch_transformer.kit.resolve.call.precision import double
from scratch_transformer.kit.resolve.candidate import tensors
from scratch_transformer.kit.resolve.library import supplied
from scratch_transformer.kit.resolve.names.inputs import input_of, is_mask
from scratch_transformer.kit.resolve.trials.mask_search import with_required_masks
from scratch_transformer.kit.resolve.trials.misfits import SHAPES
from scratch_transformer.kit.resolve.trials.outcome import Outcome

SIDES = (("src", "tgt"), ("memory", "x"), ("memory", "ids"))
EVEN, UNEVEN = ((6, 6), (9, 9)), ((7, 5), (4, 8))
"""Tokens of the source and of the target."""
SAMPLES, MOST_FORMS, MOST_MASKS = 2, 14, 2


def finding(outcome: Outcome) -> tuple[Finding, BaseException] | None:
    """B26, with what it stops with, if its shapes never fit where lengths differ, and always fit where they do not.

    For what was built of the learner's parts alone.
    """
    sides = next((pair for pair in SIDES if set(pair) <= set(outcome.kind.inputs)), None)
    made, said = outcome.made, SHAPES.search(str(outcome.error))
    if sides is None or not isinstance(made, nn.Module) or supplied.names(made) or not said:
        return None
    calls = _Calls(made, outcome.kind, sides)
    ways = list(calls.ways())
    works = [way for way in ways if all(calls.stopped(way, lengths) is None for lengths in EVEN)]
    if not works or any(calls.stopped(way, lengths) is None for way in ways for lengths in UNEVEN):
        return None
    stops = [calls.stopped(way, lengths) for way in works for lengths in UNEVEN]
    first, code = stops[0], learners_line(stops[0])
    if first is None or not code or not all(SHAPES.search(str(stop)) for stop in stops):
        return None
    if SPLIT.search(str(first)):  # as if there were as many of both: with one length that is right (A35)
        return None
    text = in_one_line(first)
    if line := _exchanged(calls, works):
        why = "Two masks are handed on the other way round: with source and target of one length it runs, and the "
        why += f"decoder's attention to itself is given the source's mask; with 7 and 5 tokens it stops: {text}."
        return Finding(MISTAKES["A27"], f"{why} {DONE_AT}{line}", STOPS_UNEVEN, fix=OF_EXCHANGED), first
    begin = "It works only where source and target have the same number of tokens; with 7 and 5 it stops"
    return Finding(MISTAKES["B26"], f"{begin}: {text}. {STOPS_AT}{code}", fix=OF_SHAPES), first


def _exchanged(calls: _Calls, works: list[Plan]) -> str:
    """The line on which the whole hands two masks to a part, with which it runs where they are exchanged; else ""."""
    for path, part in calls.made.named_children():
        forward = None if is_of_torch(type(part)) else part.forward
        names = [p.name for p in parameters_of(forward)] if forward is not None else []
        masks, line = [name for name in names if is_mask(name)], _line_of_call(calls.made, path)
        if len(masks) != 2 or not line:
            continue
        hook = part.register_forward_pre_hook(partial(_turned, names, masks), with_kwargs=True)
        try:
            if all(calls.stopped(way, lengths) is None for way in works[:1] for lengths in UNEVEN):
                return line
        finally:
            hook.remove()
    return ""


def _turned(
    names: list[str], masks: list[str], part: nn.Module, args: tuple[Any, ...], told: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What a part is given, with its two masks exchanged."""
    given = dict(zip(names, args, strict=False)) | told
    return (), given | dict(zip(masks, (given.get(name) for name in reversed(masks)), strict=True))


def _line_of_call(made: nn.Module, path: str) -> str:
    """The first line of its forward that calls a part."""
    lines, _ = lines_of(type(made).forward)
    return next((line.strip() for line in lines if re.search(rf"\bself\.{path}\(", line.partition("#")[0])), "")


@dataclass(frozen=True)
class _Calls:
    """sides: the canonical names of the source's sequence and of the target's."""

    made: nn.Module
    kind: Kind
    sides: tuple[str, str]

    def ways(self) -> Iterator[Plan]:
        """Ways to call it in which a name says which sequence is the source's, with masks that hide nothing."""
        try:
            plans = list(calling.plans(forwards.forward_of(self.made, self.kind), self.kind.inputs, self.kind.defaults))
        except (CannotCall, IndexError):  # it asks for tables of angles, too
            return
        said = (self.sides[0], "key", "value") if "x" in self.sides else self.sides[:1]  # keys, beside x, are memory's
        for plan in plans:
            if any(name == self.sides[0] and input_of(p, said) for p, name in plan.arguments.items()):
                for one in self._masked(plan):
                    yield from itertools.islice(with_required_masks(one.with_all_masks(), every=False), MOST_FORMS)

    def _masked(self, plan: Plan) -> Iterator[Plan]:
        """The plan, and with every mask of either side: of a name that says neither, extended_mask, no one knows."""
        masks = [name for name in self.kind.inputs if name in MASKS]
        taken = [(p, needed) for p, _, needed in plan.mask_parameters]
        yield plan
        for names in itertools.product(masks, repeat=len(taken)) if len(taken) <= MOST_MASKS else ():
            own = tuple((p, name, needed) for (p, needed), name in zip(taken, names, strict=True))
            if own != plan.mask_parameters:
                yield replace(plan, mask_parameters=own)

    def stopped(self, way: Plan, lengths: tuple[int, int]) -> BaseException | None:
        """What it stops with, for so many tokens of both; None where it gives a row for every one of the target's."""
        try:
            with double(), torch.no_grad():
                given = way.give(self._inputs(lengths))
                outputs = list(tensors(forwards.forward_of(self.made, self.kind)(**given)))
        except (Exception, CannotCall) as error:
            return error
        fits = any(output.shape[:2] == (SAMPLES, lengths[1]) for output in outputs)
        return None if fits else CannotCall("it gives no row for every token")

    def _inputs(self, lengths: tuple[int, int]) -> Inputs:
        make = torch.Generator().manual_seed(0)
        found: dict[str, Any] = dict.fromkeys(name for name in self.kind.inputs if name in MASKS)
        for name, length in zip(self.sides, lengths, strict=True):
            if name in ("src", "tgt", "ids"):  # none of them is padding
                found[name] = torch.randint(2, 11, (SAMPLES, length), generator=make)
            else:
                shape = SAMPLES, length, int(self.kind.defaults["d_model"])
                found[name] = torch.randn(shape, generator=make, dtype=torch.float64)
        return found
