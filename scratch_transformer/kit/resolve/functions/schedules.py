"""Schedules of the learning rate: functions of the step, and classes around an optimizer or on top of one."""

from __future__ import annotations

import copy
import inspect
import re
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from scratch_transformer.kit.definitions import names_in
from scratch_transformer.kit.resolve.build.construct import parameters_of
from scratch_transformer.kit.resolve.names.inputs import input_of
from scratch_transformer.kit.resolve.names.settings import settings_of

STEPS = re.compile(r"step|update", re.I)
START = 1.0
"""The rate that an optimizer has before a schedule sets it."""
RATES = ("rate", "get_rate", "lr", "learning_rate", "lrate")


class Recording(torch.optim.SGD):
    """An optimizer that notes the learning rate of each of its steps. rates: so far."""

    def __init__(self) -> None:
        super().__init__([nn.Parameter(torch.zeros(1))], lr=START)
        self.rates: list[float] = []

    @property
    def rate(self) -> float:
        return float(self.param_groups[0]["lr"])

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        self.rates.append(self.rate)


def is_schedule(cls: Any) -> bool:
    """A class that has a method to take a step, and takes an optimizer or has a method for the rate."""
    if not isinstance(cls, type) or issubclass(cls, nn.Module):
        return False
    methods = [name for base in cls.__mro__ for name in vars(base) if not name.startswith("__")]
    return bool(optimizers(cls) or set(methods) & set(RATES)) and any(map(STEPS.search, methods))


def is_cosine(function: Any) -> bool:
    """A function of a step, of the least and the greatest rate, and of a number of steps, that computes a cosine."""
    if not inspect.isfunction(function) or "cos" not in names_in(function):
        return False
    step, *others = [parameter.name for parameter in parameters_of(function)] or [""]
    told = {setting for name in others for setting in settings_of(name)[:1]}
    is_told = {"max_lr", "min_lr"} <= told and bool(told & {"warmup", "total"})
    return is_told and input_of(step, ("steps",)) is not None


def optimizers(cls: Any) -> dict[str, Recording]:
    """For the parameters of a constructor that take an optimizer."""
    return {p.name: Recording() for p in parameters_of(cls) if p.name.lower().startswith(("opt", "inner_opt"))}


def of_steps(made: Any) -> Callable[..., Any]:
    """A schedule as a function of steps 1, 2, …: the rates that its optimizer steps with; else what its method says.

    What leaves the optimizer's steps to others sets the rate of the step to come, unless it set one when it was made.
    """
    if callable(made):
        return made.__call__
    if not any(isinstance(value, Recording) for value in vars(made).values()):
        return next(getattr(made, name) for name in RATES if hasattr(made, name))

    def rates(steps: Tensor) -> Tensor:
        schedule = copy.deepcopy(made)
        optimizer = next(value for value in vars(schedule).values() if isinstance(value, Recording))
        advance = _advancing(schedule)
        is_set, found = optimizer.rate != START, []
        for _ in range(int(steps.max())):
            before, optimizer.rates = optimizer.rate, []
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # schedulers of torch want to see the optimizer's own step
                advance()
            found.append(optimizer.rates[0] if optimizer.rates else before if is_set else optimizer.rate)
        return torch.tensor(found, dtype=torch.float64)[steps - 1]

    rates.is_of_many = True  # type: ignore[attr-defined]
    return rates


def _advancing(schedule: Any) -> Callable[[], Any]:
    """The method that takes a step: `step`, else one whose name says so and that needs nothing."""
    names = sorted((n for n in dir(schedule) if STEPS.search(n) and not n.startswith("__")), key=_rank)
    for name in names:
        method = getattr(schedule, name)
        if callable(method) and not any(p.default is p.empty for p in parameters_of(method)):
            return method
    raise TypeError("it has no method that takes a step")


def _rank(name: str) -> tuple[bool, bool, bool, int]:
    return name != "step", name.startswith("_"), "step" not in name, len(name)


def each_step(function: Callable[..., Any], parameter: str) -> Callable[..., Tensor]:
    """A function of one step as one of many."""
    if getattr(function, "is_of_many", False):
        return function

    def rates(**given: Any) -> Tensor:
        steps = given.pop(parameter)
        return torch.tensor([float(function(**{**given, parameter: int(n)})) for n in steps], dtype=torch.float64)

    return rates
