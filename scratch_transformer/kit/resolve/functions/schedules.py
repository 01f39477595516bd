"""Schedules of the learning rate: functions of the step, and classes around an optimizer or on top of one."""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import math
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

from scratch_transformer.kit.definitions import codes_of, names_in, nodes_of, parameters_called, source_of, tree_of
from scratch_transformer.kit.resolve.build.construct import parameters_of
from scratch_transformer.kit.resolve.functions import with_optimizers
from scratch_transformer.kit.resolve.names.inputs import input_of
from scratch_transformer.kit.resolve.names.settings import settings_of
from scratch_transformer.kit.resolve.names.words import plain

KINDS = ("WarmupSchedule", "CosineSchedule", "LinearSchedule")
STEPS = re.compile(r"step|update", re.I)
START = 1.0
"""The rate that an optimizer has before a schedule sets it."""
RATES = ("rate", "get_rate", "lr", "learning_rate", "lrate", "get_lr", "lr_at", "get_learning_rate")


class Recording(torch.optim.SGD):
    """An optimizer that notes the learning rate of each of its steps. rates: so far."""

    def __init__(self, lr: float = START) -> None:
        super().__init__([nn.Parameter(torch.zeros(1))], lr=lr)
        self.rates: list[float] = []

    @property
    def rate(self) -> float:
        return float(self.param_groups[0]["lr"])

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        self.rates.append(self.rate)


def is_schedule(cls: Any) -> bool:
    """A class that has a method to take a step, and takes an optimizer or has a method for the rate.

    Or one whose method for the rate is told the step.
    """
    if not isinstance(cls, type) or issubclass(cls, nn.Module):
        return False
    methods = [name for base in cls.__mro__ for name in vars(base) if not name.startswith("__")]
    steps = any(map(STEPS.search, methods))
    return (bool(optimizers(cls, {}) or {*methods} & {*RATES}) and steps) or _of_a_step(cls) is not None


def _of_a_step(cls: type) -> str | None:
    """The method of a class that gives the rate of a step which it is told: get_lr(self, step).

    Of what need not be told, and sets its optimizer's, the steps tell more: get_lr(self, step=None).
    """
    own = [name for name in ("__call__", *RATES) if inspect.isfunction(vars(cls).get(name))]
    given = {name: parameters_called(vars(cls)[name]) for name in own}
    given = {n: taken for n, taken in given.items() if len(taken) == 1 and input_of(taken[0].name, ("steps",))}
    must = {n: taken for n, taken in given.items() if taken[0].default is taken[0].empty}
    return next(iter(must if optimizers(cls, {}) else given), None)


def is_cosine(thing: Any) -> bool:
    """A function of a step, of the least and the greatest rate, and of a number of steps, that computes a cosine.

    Or a class, or what makes one of torch's with an optimizer that it is given: of half a cosine, or of a line.
    """
    if not inspect.isfunction(thing) or is_maker(thing):
        return kind_of(thing) == "CosineSchedule"
    if "cos" not in names_in(thing):
        return False
    step, *others = [parameter.name for parameter in parameters_of(thing)] or [""]
    told = {setting for name in others for setting in settings_of(name)[:1]}
    is_told = {"max_lr", "min_lr"} <= told and bool(told & {"warmup", "total"})
    return is_told and input_of(step, ("steps",)) is not None


def is_linear(thing: Any) -> bool:
    """What falls in a straight line: a function of a step, of the greatest rate and of numbers of steps; or as above.

    No word of another curve is in it, nor in its name.
    """
    if not inspect.isfunction(thing) or is_maker(thing):
        return kind_of(thing) == "LinearSchedule"
    step, *others = [parameter.name for parameter in parameters_of(thing)] or [""]
    told = {setting for name in others for setting in settings_of(name)[:1]}
    is_told = {"max_lr", "warmup", "total"} <= told and input_of(step, ("steps",)) is not None
    return is_told and not OTHER_CURVES.search(source_of(thing)) and "cos" not in plain(thing.__name__)


def is_warmup(thing: Any) -> bool:
    """A class, or what makes a schedule of torch's, whose rate falls with the root of the step.

    Or a function of a step, of the width and of the warm-up, that takes roots and nothing else that bends.
    """
    if not inspect.isfunction(thing) or is_maker(thing):
        return kind_of(thing) == "WarmupSchedule"
    step, *others = [parameter.name for parameter in parameters_of(thing)] or [""]
    told = {setting for name in others for setting in settings_of(name)[:1]}
    is_told = {"d_model", "warmup"} <= told and input_of(step, ("steps",)) is not None
    return is_told and ROOT.search(source_of(thing)) is not None and not re.search(r"\bcos\(", source_of(thing))


MADE = ("LambdaLR", "LRScheduler", "_LRScheduler", "SequentialLR")
ROOT = re.compile(r"\*\*\s*\(?\s*-?\s*(0?\.5|1\.5|\(?-?1 ?/ ?2)|\brsqrt\b|\bsqrt\b|\bpow(er)?\(")


OTHER_CURVES = re.compile(r"\bcos\w*\(|\bexp\w*\(|\bpow\w*\(|\*\*|sqrt|gamma|poly|[Cc]osine")


@functools.lru_cache(maxsize=1024)
def kind_of(thing: Any) -> str:
    """The kind of a schedule that is a class, or that something makes with an optimizer; "" of anything else."""
    own = {*vars(thing)} if isinstance(thing, type) else set()
    sets_rates = {"lr", "param_groups", "base_lrs", *RATES} & (own | names_in(thing))
    if not (is_maker(thing) or (is_schedule(thing) and sets_rates)):
        return ""
    text = "".join(map(source_of, _parts_of(thing)))
    told = {setting for name in named_by(thing) for setting in settings_of(name)[:1]}
    if re.search(r"\bcos\(", text):
        return "CosineSchedule"
    if "warmup" in told and ROOT.search(text):
        return "WarmupSchedule"
    if not {"warmup", "total"} <= told:
        return ""
    is_line = not (OTHER_CURVES.search(text) or "cos" in plain(thing.__name__))
    return "LinearSchedule" if is_line else "CosineSchedule" if is_maker(thing) else ""


def named_by(thing: Any) -> set[str]:
    """The names in something, and in the methods of its class that a method which makes a schedule names."""
    return {name for one in _parts_of(thing) for name in names_in(one)}


def _parts_of(thing: Any) -> list[Any]:
    owner = getattr(thing, "owner", None)
    helpers = [getattr(owner, name, None) for name in names_in(thing)] if owner is not None else []
    return [thing, *(one for one in helpers if inspect.isfunction(one) and not hasattr(nn.Module, one.__name__))]


def is_maker(thing: Any) -> bool:
    """Whether a function makes a schedule of torch's for the optimizer or the model that it is given; or a function."""
    if not inspect.isfunction(thing):
        return False
    has_one = bool({*MADE} & names_in(thing)) and bool(optimizers(thing, {}) or hasattr(thing, "owner"))
    return has_one or _makes_a_function(thing)


def _makes_a_function(function: Any) -> bool:
    """Whether all that a function returns is one of a step: lambda step: …, or one that is written in it."""
    tree = tree_of(function)
    body = tree.body if isinstance(tree, ast.FunctionDef) else []
    inner = {node.name: node for node in body if isinstance(node, ast.FunctionDef)}
    returned = [node.value for node in body if isinstance(node, ast.Return)]
    made = [inner.get(value.id) if isinstance(value, ast.Name) else value for value in returned]
    given = [one.args.args if isinstance(one, (ast.Lambda, ast.FunctionDef)) else [] for one in made]
    return bool(given) and all(len(one) == 1 and input_of(one[0].arg, ("steps",)) for one in given)


def optimizers(thing: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """For the parameters of a constructor, or of what makes a schedule, that take an optimizer; or weights, of one."""
    names = [p.name for p in parameters_of(thing) if p.name.lower().startswith(("opt", "inner_opt"))]
    weights = [p.name for p in parameters_of(thing) if p.name.startswith("param")] if optimizer_of(thing) else []
    given = {name: Recording(rate_of(thing, settings)) for name in names}
    return {**given, **{name: [nn.Parameter(torch.zeros(1))] for name in weights}}


def around(thing: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What a constructor is given besides settings: the optimizer, and where the warm-up begins."""
    return {**optimizers(thing, settings), **beginnings(thing)}


def optimizer_of(thing: Any) -> type | None:
    """That of torch's whose steps a class takes that warms up by itself: class NoamAdam(torch.optim.Adam)."""
    if not (isinstance(thing, type) and issubclass(thing, torch.optim.Optimizer)):
        return None
    if not any("warmup" in settings_of(p.name)[:1] for p in parameters_of(thing)):
        return None
    of_torch = (base for base in thing.__mro__[1:] if base.__module__.startswith("torch.optim."))
    return next((base for base in of_torch if base is not torch.optim.Optimizer), None)


def rate_of(thing: Any, settings: Mapping[str, Any]) -> float:
    """The rate that an optimizer has of which a schedule is a share: its greatest; 1 where it is told what to make."""
    if "max_lr" in settings:
        if _falls_to_its_own(thing):
            return float(settings["min_lr"])
        starts = beginnings(thing)
        is_told = any("max_lr" in settings_of(p.name)[:1] for p in parameters_of(thing) if p.name not in starts)
        return START if is_told else float(settings["max_lr"])
    speaks_of_widths = any("d_model" in settings_of(name)[:1] for name in named_by(thing))
    if speaks_of_widths or not {"d_model", "warmup"} <= settings.keys():
        return START
    return float((settings["d_model"] * settings["warmup"]) ** -0.5)


def told(thing: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a cosine or a line: what is told of no least rate falls to 0, or to a share that it has written.

    A function of a step that speaks of no warm-up has none.
    """
    is_of_a_step = inspect.isfunction(thing) and not is_maker(thing)
    names = _told_from_outside(thing) if is_of_a_step else named_by(thing)
    knows = any("min_lr" in settings_of(name)[:1] or SHARE.search(name) for name in names) or _falls_to_its_own(thing)
    speaks = not is_of_a_step or "warm" in source_of(thing).lower()
    least = {} if knows else {"min_lr": _written_share(thing, settings) if is_of_a_step else 0.0}
    return least if speaks else {**least, "warmup": 0}


def _falls_to_its_own(thing: Any) -> bool:
    """Whether a class is told the greatest rate alone, and takes its optimizer's for the least: eta_max - base_lr."""
    named = {setting for p in parameters_of(thing) for setting in settings_of(p.name)[:1]}
    is_one = isinstance(thing, type) and "max_lr" in named and "min_lr" not in named
    return is_one and LEAST.search(source_of(thing)) is not None


LEAST = re.compile(r"(max|peak)\w* *- *base_lr\b")


def _told_from_outside(function: Any) -> set[str]:
    """The names of what a function is told, and of what it reads besides: min_lr = lr / 10 within it is none."""
    read = {name for code in codes_of(function) for name in code.co_names}
    return read | {parameter.name for parameter in parameters_of(function)}


def beginnings(thing: Any) -> dict[str, float]:
    """For the parameters that say where the warm-up begins, start_lr beside the greatest rate: at 0."""
    named = [p.name for p in parameters_of(thing)]
    starts = [name for name in named if BEGINNING.fullmatch(plain(name))]
    is_told = any("max_lr" in settings_of(name)[:1] for name in named if name not in starts)
    has_peak = bool(starts) and (is_told or READS_RATE.search(source_of(thing)) is not None)
    return dict.fromkeys(starts, 0.0) if has_peak else {}


BEGINNING = re.compile(r"(warmup)?(start|init|initial|begin)(ing)?(lr|lrate|learningrate|rate)|(lr|rate)(start|init)")
READS_RATE = re.compile(r"""\[['"]lr['"]\](?! *=[^=])|\bbase_lrs\b""")
"""That a class asks its optimizer for the greatest rate."""


def with_its_ends(function: Any, settings: Mapping[str, Any]) -> Any:
    """A function of a step with the least rate as a share, and where the warm-up begins, if it is told them."""
    if not inspect.isfunction(function) or "min_lr" not in settings:
        return function
    share = settings["min_lr"] / settings["max_lr"]
    own = {p.name: share for p in parameters_of(function) if SHARE.search(p.name)} | beginnings(function)

    @functools.wraps(function)
    def rate(*args: Any, **named: Any) -> Any:
        return function(*args, **own, **named)

    left = [p.replace(kind=p.KEYWORD_ONLY) for p in parameters_of(function) if p.name not in own]
    rate.__signature__ = inspect.Signature(left)  # type: ignore[attr-defined]
    return rate if own else function


def _written_share(function: Any, settings: Mapping[str, Any]) -> float:
    """The rate of a function's last step, where it is a share of the greatest that is written in: 0.1 * lr, lr / 10.

    Or of a step long after that, where its fall ends elsewhere.
    """
    written = [node.value for node in nodes_of(function, ast.Constant)]
    numbers = [float(one) for one in written if isinstance(one, (int, float))]
    shares = {one for number in numbers if number for one in (number, 1 / number) if 0 < one < 0.5}
    least = [one * settings["max_lr"] for one in shares]
    rates = (_rate_at(function, last, settings) for last in (settings["total"], 3 * settings["total"]))
    return next((rate for rate in rates if any(math.isclose(rate, one, rel_tol=1e-9) for one in least)), 0.0)


def _rate_at(function: Any, number: int, settings: Mapping[str, Any]) -> float:
    step, *_ = [p.name for p in parameters_of(function)] or [""]
    try:
        return float(function(**{**_values(function, settings), step: number}))
    except Exception:  # the learner's code may raise anything
        return 0.0


SHARE = re.compile(
    r"min\w*(ratio|factor|frac|scale|mult)|(ratio|factor|frac)\w*min|final\w*(ratio|factor|frac|scale|mult)"
)
"""In the name of the least rate as a share of the greatest."""


def made_by(maker: Any, settings: Mapping[str, Any]) -> Any:
    """A function that makes a schedule, or one for LambdaLR, as one of the steps."""
    if is_beside := hasattr(maker, "owner"):
        made = with_optimizers.made_by(maker, settings, rate_of(maker, settings))
    else:
        made = maker(**_values(maker, settings), **optimizers(maker, settings))
    if inspect.isfunction(made):
        first = _first_of(made) if "d_model" in settings else 0
        return _times(rate_of(maker, settings) * _of_bare_roots(maker, made, settings), made, first)
    schedule = _schedule_in(made)
    peak = settings["max_lr"] if "max_lr" in settings and not is_beside and _gives_shares(maker, settings) else 1.0
    if is_beside and "max_lr" in settings and schedule.base_lrs[0] != START:
        peak = settings["max_lr"] / schedule.base_lrs[0]  # of which its rates are shares, where that is written in
    if not is_beside and (shares := getattr(schedule, "lr_lambdas", [])):
        peak *= _of_bare_roots(maker, shares[0], settings)

    def rates(steps: Tensor) -> Tensor:
        own, found = copy.deepcopy(schedule), []
        for _ in range(int(steps.max()) + 1):
            found.append(float(own.optimizer.param_groups[0]["lr"]))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # schedulers of torch want to see the optimizer's own step
                own.step()
        return peak * torch.tensor(found, dtype=torch.float64)[steps - int("d_model" in settings)]

    rates.is_of_many = True  # type: ignore[attr-defined]
    return rates


def _gives_shares(maker: Any, settings: Mapping[str, Any]) -> bool:
    """Whether the rates are shares of the optimizer's, though the greatest is told: of twice the rates, the same."""
    if not any("max_lr" in settings_of(p.name)[:1] for p in parameters_of(maker)):
        return False
    twice = {name: 2 * value if name in ("max_lr", "min_lr") else value for name, value in settings.items()}
    made = [_schedule_in(maker(**_values(maker, one), **optimizers(maker, one))) for one in (settings, twice)]
    shares = [
        [one(step) for one in getattr(each, "lr_lambdas", []) for step in range(settings["total"])] for each in made
    ]
    return any(shares[0]) and shares[0] == shares[1]


def _of_bare_roots(maker: Any, share: Callable[[int], float], settings: Mapping[str, Any]) -> float:
    """How many times greater the optimizer's rate is where shares of it, min(step**-0.5, step * warmup**-1.5), are no
    shares of the greatest: d_model**-0.5."""
    if "d_model" not in settings or rate_of(maker, settings) == START:
        return 1.0
    last, root = settings["warmup"], settings["warmup"] ** -0.5
    is_bare = any(math.isclose(float(share(step)), root, rel_tol=1e-9) for step in (last - 1, last))
    return 1 / root if is_bare else 1.0


def _first_of(share: Callable[[int], float]) -> int:
    """1 where the first step is 0, as LambdaLR has it; 0 for what divides by that."""
    try:
        return int(share(0) is not None)
    except ArithmeticError:
        return 0


def _times(peak: float, share: Callable[[int], float], before: int) -> Callable[..., Tensor]:
    """A function of one step, that gives a share of the greatest rate, as one of many. before: steps to count less."""

    def rates(steps: Tensor) -> Tensor:
        return torch.tensor([peak * float(share(int(n) - before)) for n in steps], dtype=torch.float64)

    rates.is_of_many = True  # type: ignore[attr-defined]
    return rates


def _values(thing: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What the parameters of something are given that have a setting's name, or that of a share."""
    found: dict[str, Any] = {**beginnings(thing)}
    for parameter in parameters_of(thing):
        if parameter.name in found:
            continue
        known = next((one for one in settings_of(parameter.name) if one in settings), None)
        if SHARE.search(parameter.name) and "min_lr" in settings:
            found[parameter.name] = settings["min_lr"] / settings["max_lr"]
        elif known is not None:
            found[parameter.name] = settings[known]
    return found


def _schedule_in(made: Any) -> Any:
    """The schedule of torch's among what was returned: [optimizer], [{"scheduler": schedule}]."""
    if isinstance(made, torch.optim.lr_scheduler.LRScheduler):
        return made
    inner = made.values() if isinstance(made, dict) else made if isinstance(made, (list, tuple)) else ()
    return next((found for one in inner if (found := _schedule_in(one)) is not None), None)


def of_steps(made: Any, first: int = 1) -> Callable[..., Any]:
    """A schedule as a function of steps 1, 2, …: the rates that its optimizer steps with; else what its method says.

    first: the number of the first step.

    What leaves the optimizer's steps to others sets the rate of the step to come, unless it set one when it was made.
    """
    if callable(made):
        return made.__call__
    if (name := _of_a_step(type(made))) is not None:
        return getattr(made, name)
    if (base := optimizer_of(type(made))) is not None:
        return _of_itself(made, base)
    if not any(isinstance(value, Recording) for value in vars(made).values()):
        return next(getattr(made, name) for name in RATES if hasattr(made, name))

    def rates(steps: Tensor) -> Tensor:
        schedule = copy.deepcopy(made)
        optimizer = next(value for value in vars(schedule).values() if isinstance(value, Recording))
        advance = _advancing(schedule)
        is_of_torch = isinstance(schedule, torch.optim.lr_scheduler.LRScheduler)
        is_set, found = is_of_torch or optimizer.rate != optimizer.defaults["lr"], []
        for _ in range(int(steps.max()) + 1 - first):
            before, optimizer.rates = optimizer.rate, []
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # schedulers of torch want to see the optimizer's own step
                advance()
            found.append(optimizer.rates[0] if optimizer.rates else before if is_set else optimizer.rate)
        return torch.tensor(found, dtype=torch.float64)[steps - first]

    rates.is_of_many = True  # type: ignore[attr-defined]
    return rates


def _of_itself(made: torch.optim.Optimizer, base: type) -> Callable[..., Tensor]:
    """The rates that an optimizer takes its own steps with. base: whose step they are."""

    def rates(steps: Tensor) -> Tensor:
        own, found = object.__new__(type(made)), []
        vars(own).update(copy.deepcopy(vars(made)))  # an optimizer by itself is copied without what else it has
        with mock.patch.object(base, "step", lambda self, *_: found.append(float(self.param_groups[0]["lr"]))):
            for _ in range(int(steps.max())):
                own.step()
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
