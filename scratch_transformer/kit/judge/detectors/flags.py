"""B29 of flags that a constructor takes and that change nothing: norm_first, batch_first, bias, causal."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

import torch

from scratch_transformer.kit.definitions import nodes_of, parameters_of, reads
from scratch_transformer.kit.judge.detectors.inventory import is_read
from scratch_transformer.kit.judge.search import Hypothesis
from scratch_transformer.kit.judge.session import Session
from scratch_transformer.kit.judge.told_by_calls import told_by_calls
from scratch_transformer.kit.judge.variants import call
from scratch_transformer.kit.kind import NO_MASK, Finding
from scratch_transformer.kit.mistakes import MISTAKES
from scratch_transformer.kit.mistakes.construction import DOES_UNHEARD_FLAG, OTHER_THAN_ASKED, UNHEARD_FLAG
from scratch_transformer.kit.syntax import arguments_of, names_within

ORDER = re.compile(r"(is_|use_)?(norm_?first|pre_?(layer_?)?norm|pre_?ln|norm_?before|normalize_before)", re.I)
"""True asks for pre-norm."""
BIAS, CAUSAL = re.compile(r"(use_|\w+_)?bias", re.I), re.compile(r"(is_|use_)?causal(_mask)?", re.I)
BATCH = re.compile(r"(is_)?batch_?first", re.I)
OF_ORDERS = {True: "pre", False: "post"}
"""What it asks for."""


def ignored_flags(session: Session, best: Hypothesis | None) -> Iterator[Finding]:
    """Of what agrees, the first flag with which it is the same whatever it is told, and which it hands to no part."""
    cls: Any = type(session.candidate.module)
    if best is None or session.candidate.replaced or session.candidate.module is None:
        return
    for name, default in _flags(cls):
        if _is_anothers(session, name) or _is_handed_on(cls, name) or _is_heard(session, name):
            continue
        said = f"Told {name} = True or told {name} = False, it gives the same numbers."
        told = {default, *(value for value in told_by_calls(cls, name) if isinstance(value, bool))}
        otherwise = _otherwise(session, best, name, told)
        form = OTHER_THAN_ASKED if otherwise else UNHEARD_FLAG
        yield Finding(MISTAKES["B29"], said + otherwise, form, name=name, does=DOES_UNHEARD_FLAG)
        return


def _otherwise(session: Session, best: Hypothesis, name: str, told: set[bool]) -> str:
    """What it does that is not what the flag asks for, where it is told that; "" if there is no such thing.

    What takes a mask may be given one that hides the future, whatever its flag says.
    """
    order = best.recipe.norm_order
    if ORDER.fullmatch(name) and order in OF_ORDERS.values() and (other := told - {order == "pre"}):
        return f" It is told {name} = {other.pop()}, and is {order}-norm."
    if CAUSAL.fullmatch(name) and True in told and NO_MASK in session.candidate.limits and _sees_the_future(session):
        return f" It is told {name} = True, and every token attends to all."
    return ""


def _sees_the_future(session: Session) -> bool:
    """Whether what it gives for a first token depends on the last one."""
    inputs = session.ran[0].probe.inputs
    x = inputs["x"].clone()
    x[:, -1] += 1
    first, second = (call(session.candidate, {**inputs, "x": one})[:, 0] for one in (inputs["x"], x))
    return not torch.equal(first, second)


def _flags(cls: Any) -> Iterator[tuple[str, bool]]:
    """The parameters of a constructor that are True or False by default, and called like a flag that is known."""
    for parameter in parameters_of(cls):
        is_known = any(flag.fullmatch(parameter.name) for flag in (ORDER, BIAS, CAUSAL, BATCH))
        if is_known and isinstance(parameter.default, bool):
            yield parameter.name, parameter.default


def _is_anothers(session: Session, name: str) -> bool:
    """Whether something else tells of it: A15 of biases of projections.

    A flag that hides the future may be read where no mask is given, which numbers with one do not show.
    """
    module: Any = session.candidate.module
    is_read_at_all = reads(type(module).__init__, name) and any(is_read(module, k) for k in _kept_as(module, name))
    return (BIAS.fullmatch(name) is not None and "A15" in session.kind.ids) or (
        CAUSAL.fullmatch(name) is not None and is_read_at_all
    )


def _kept_as(module: Any, name: str) -> list[str]:
    """The attributes that a constructor makes of what it is told: self.causal = causal."""
    made = [node for node in nodes_of(type(module), ast.Assign) if name in names_within(node.value)]
    targets = [one for node in made for target in node.targets for one in ast.walk(target)]
    return [one.attr for one in targets if isinstance(one, ast.Attribute)]


def _is_handed_on(cls: Any, name: str) -> bool:
    """Whether any call of the class has it among its arguments: then it is for that part to listen."""
    given = [one for call in nodes_of(cls, ast.Call) for one in arguments_of(call)]
    return any(ast.unparse(one) in (name, f"self.{name}") for one in given)


def _is_heard(session: Session, name: str) -> bool:
    """Whether it is another one for True than for False: in its weights, or in what it gives for any input."""
    built = [session.candidate.rebuild(**{name: flag}) for flag in (True, False)]
    if built[0].inventory() != built[1].inventory():
        return True
    for one in built:
        one.load(session.asked)
    return any(not torch.equal(*(call(one, result.probe.inputs) for one in built)) for result in session.ran)


FLAGS = ((("B29",), ignored_flags),)
