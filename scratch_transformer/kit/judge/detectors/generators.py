"""O10 of what clips the gradients of a list of weights alone: a generator of them is used up by its first loop."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from scratch_transformer.kit.arrays.libraries import libraries
from scratch_transformer.kit.definitions import parameters_of
from scratch_transformer.kit.judge import neighbours
from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import Session
from scratch_transformer.kit.kind import Finding
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.optimizing import DOES_GO_THROUGH, GONE_THROUGH

ANY_ITERABLE = re.compile(r"\b(Itera(ble|tor)|Generator)\b")


def used_up(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """Of what may be given one, as it says that it takes any iterable, or as the learner's files call it."""
    reading = session.candidate.definition
    function, of_generator = getattr(reading, "written", None), getattr(reading, "of_generator", None)
    if of_generator is None or not _may_be_given_one(function):
        return
    result = next(one for one in session.ran if one.probe.name == "long")
    gradients = result.probe.inputs["gradients"]
    before = torch.cat([g.flatten() for g in gradients])
    is_clipped = result.output is not None and not torch.equal(before, result.output)
    if is_clipped and torch.equal(before, of_generator(gradients)):
        said = (
            "A list of weights is clipped. Given a generator, as model.parameters() is, all gradients stay as they are."
        )
        yield Finding(MISTAKES["O10"], said, GONE_THROUGH, does=DOES_GO_THROUGH)


def _may_be_given_one(function: Any) -> bool:
    first, path = parameters_of(function)[0], inspect.getsourcefile(function) or ""
    if ANY_ITERABLE.search(str(first.annotation)):
        return True
    if libraries(function) == {"numpy"}:
        return False  # parameters() is the learner's own, and gives a list
    called = re.compile(rf"\b{function.__name__}\(\s*({first.name}\s*=\s*)?[\w.]+\.parameters\(\)")
    return any(called.search(code) for code in neighbours.codes(Path(path)))


USED_UP = ((("O10",), used_up),)
