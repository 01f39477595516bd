"""Schedules that are made with their optimizer: by a method, configure_optimizers(self), or a function of a model."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

from scratch_transformer.kit.definitions import is_module_class, names_in
from scratch_transformer.kit.resolve.build.construct import parameters_of
from scratch_transformer.kit.resolve.functions.methods import of_class
from scratch_transformer.kit.resolve.names.settings import settings_of

KINDS = ("DecayGroups",)
"""What a function may be besides that makes both."""
OF_TORCH = {name for name, one in vars(torch.optim).items() if isinstance(one, type)} - {"Optimizer"}
MODELS = re.compile(r"(model|net|network|transformer|module)(_?\w)?")
WEIGHTS = re.compile(r"(model_)?param(eter)?s")
CONFIGS = re.compile(r"(\w+_)?(config|cfg|conf|args|hparams|hps?|settings|options)")
OTHERS: dict[str, Any] = {
    **dict.fromkeys(("weight_decay", "wd"), 0.0),
    **dict.fromkeys(("betas", "adam_betas"), (0.9, 0.98)),
    **dict.fromkeys(("beta1", "b1", "beta_1", "adam_beta1"), 0.9),
    **dict.fromkeys(("beta2", "b2", "beta_2", "adam_beta2"), 0.98),
    **dict.fromkeys(("eps", "epsilon", "adam_eps", "adam_epsilon"), 1e-8),
}
"""What an optimizer is told besides, of which its rates say nothing."""


def of(thing: Any) -> Iterator[tuple[str, Any]]:
    """The methods of a class of modules that make a schedule beside its optimizer; of a function, itself: the name "".

    Each as a function that knows its owner.
    """
    for name, one in vars(thing).items() if is_module_class(thing) else ():
        if inspect.isfunction(one) and "LambdaLR" in names_in(one) and [p.name for p in parameters_of(one)] == ["self"]:
            yield name, of_class(one, thing, one.__code__)
    if makes_both(thing):
        yield "", of_class(thing, _NoClass, thing.__code__)


class _NoClass:
    """The owner of a function, which has no other methods."""


def makes_both(thing: Any) -> bool:
    """Whether a function makes an optimizer of a model that it is given, and LambdaLR, and is told nothing unknown."""
    if not inspect.isfunction(thing) or hasattr(thing, "owner"):
        return False
    names, taken = names_in(thing), parameters_of(thing)
    if "LambdaLR" not in names or "backward" in names or not OF_TORCH & names or not taken:
        return False
    first = taken[0].name
    is_of_a_model = MODELS.fullmatch(first) or WEIGHTS.fullmatch(first)
    return is_of_a_model is not None and all(_is_known(one) for one in taken[1:])


def _is_known(parameter: inspect.Parameter) -> bool:
    name = parameter.name
    is_told = bool(settings_of(name)) or name in OTHERS or CONFIGS.fullmatch(name) is not None
    return is_told or parameter.default is not parameter.empty


def made_by(maker: Any, settings: Mapping[str, Any], lr: float) -> Any:
    """What a maker with an owner returns. lr: the rate of its optimizer, if it is told that."""
    owner = Owner(maker.owner, {"lr": lr, **settings})
    if maker.owner is not _NoClass:
        return maker(owner)
    first, *others = [one.name for one in parameters_of(maker)]
    told = {name: value for name in others if (value := _value(name, settings, lr)) is not None}
    configs = {name: owner for name in others if name not in told and CONFIGS.fullmatch(name)}
    model = owner.parameters() if WEIGHTS.fullmatch(first) else owner
    return _with_globals(maker, settings, lr)(model, **told, **configs)


def _value(name: str, settings: Mapping[str, Any], lr: float) -> Any:
    """What a name stands for; None of what is unknown."""
    known = next((one for one in settings_of(name) if one in settings), None)
    if known is not None:
        return settings[known]
    return lr if "max_lr" in settings_of(name)[:1] else OTHERS.get(name)


def _with_globals(function: Any, settings: Mapping[str, Any], lr: float) -> Any:
    """A function, with the settings in place of the file's own numbers of such names: warmup_steps = 4000."""
    names, outside = names_in(function), function.__globals__
    numbers = [name for name in names if type(outside.get(name)) in (int, float) and settings_of(name)]
    told = {name: value for name in numbers if (value := _value(name, settings, lr)) is not None}
    made = types.FunctionType(
        function.__code__, {**outside, **told}, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


class Owner:
    """In place of a module whose method makes its optimizer: its settings, by their names; its methods; a weight."""

    def __init__(self, cls: type, settings: Mapping[str, Any]) -> None:
        self._cls, self._settings, self._weight = cls, settings, nn.Parameter(torch.zeros(1, 1))

    def parameters(self) -> list[nn.Parameter]:
        return [self._weight]

    def named_parameters(self) -> list[tuple[str, nn.Parameter]]:
        return [("weight", self._weight)]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if (known := next((one for one in settings_of(name) if one in self._settings), None)) is not None:
            return self._settings["lr" if known == "max_lr" else known]
        own = getattr(self._cls, name, None)
        if inspect.isfunction(own) and not hasattr(nn.Module, name):
            return own.__get__(self)
        if "lr" in name or "learning_rate" in name:
            return self._settings["lr"]
        return OTHERS.get(name, self)
