"""Functions and methods that say which weights an optimizer shrinks: configure_optimizers(model, weight_decay, lr).

In groups; or all of them, where a weight decay is told and the name speaks of an optimizer.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import re
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from scratch_transformer.kit.canonical.optimizing import to_optimize
from scratch_transformer.kit.definitions import file_of, names_in, source_of
from scratch_transformer.kit.judge.frames import parsed
from scratch_transformer.kit.resolve.functions import own_models, surroundings
from scratch_transformer.kit.resolve.names.settings import settings_of
from scratch_transformer.kit.resolve.names.words import plain

OPTIMIZER = {
    "lr": ("lr", "learningrate", "alpha", "a", "stepsize"),
    "beta1": ("beta1", "b1"),
    "beta2": ("beta2", "b2"),
    "eps": ("eps", "epsilon"),
    "weight_decay": ("weightdecay", "wd", "lambda", "lam", "lambd", "decay", "lmbda", "weightdecayrate", "l2"),
}
"""What the parameters of optimizers are called."""
MODELS = ("self", "model", "net", "network", "module", "m", "gpt", "llm", "lm")
GROUPS = re.compile(r"""["'](weight_decay|wd)["']\s*:|dict\([^)]*(weight_decay|wd)\s*=""")
OPTIMIZERS = re.compile(r"(^|\.)(\w*Adam\w*|SGD|Muon|Lion|RMSprop|Adafactor)$")
OF_MATRICES = re.compile(r"\bn?dim(\(\))? (>= 2|> 1|== 2)|['\"](weight_decay|wd)['\"]:")
"""In what makes an optimizer of matrices, too."""
OPTIMIZES = re.compile(r"optim")
"""In the name of what makes an optimizer."""
KEPT = ("config", "cfg", "conf", "hparams", "args")
SECTIONS = ("train", "training", "optim", "optimizer", "optimization")
"""Where a model, or what trains it, keeps what it is told; and where in that."""
TRAINED = re.compile(rf"\bself\.(_?(?:{'|'.join(MODELS[1:])}))\b(?!\()")
"""What trains a model has it by this name: self.model.parameters()."""
STEPS = {"warmup": 8, "total": 40, "d_model": 48, "step": 40}
OTHERS: dict[str, Any] = {
    "betas": (0.9, 0.95), "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "device": "cpu",
    "(is|use|has|verbose|log|print|master|fused|foreach|amsgrad)": False,
}  # fmt: skip
"""How the names of others begin, and what they are given."""


def makes_groups(thing: Any) -> bool:
    """Whether a function of a model writes down groups of weights with a weight decay each; or one of all."""
    if not inspect.isfunction(thing) or not (GROUPS.search(source_of(thing)) or _makes_one(thing)):
        return False
    parameters = list(inspect.signature(thing).parameters.values())
    required = [p for p in parameters[1:] if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    return plain(parameters[0].name) in MODELS and all(_meant(p.name) for p in required) if parameters else False


def _makes_one(function: Any) -> bool:
    """Whether an optimizer of all weights is made with a weight decay that is told, or that the model keeps."""
    told = {_meant(name) for name in (*inspect.signature(function).parameters, *function.__code__.co_names)}
    names = names_in(function)
    makes = any(name in names for name in ("AdamW", "Adam", "SGD")) and "parameters" in names
    return makes and "weight_decay" in told and OPTIMIZES.search(plain(function.__name__)) is not None


def methods_of(thing: Any) -> list[tuple[str, Any]]:
    """Those methods of a class: configure_optimizers(self, ...)."""
    return [(name, one) for name, one in vars(thing).items() if makes_groups(one)] if isinstance(thing, type) else []


def reading(function: Any, settings: Mapping[str, Any], judged: Mapping[Any, Any]) -> Callable[..., Any]:
    """Whether each weight of a small model shrinks, of what the function makes for it, or for one of the learner's.

    judged: what of the learner's was judged already, among which there may be the model that it is meant for.
    """
    named = list(inspect.signature(function).parameters)[1:]
    told = {name: _value(_meant(name), settings) for name in named if _meant(name)}
    is_grouped = GROUPS.search(source_of(function)) is not None
    kept = {name: _value(_meant(name), settings) for name in function.__code__.co_names if _meant(name)}

    around, trained = surroundings.stand_ins(function), TRAINED.search(source_of(function))

    def shrinks(decay: Tensor) -> Tensor:
        for model in own_models.models_for(function, judged):
            with contextlib.suppress(Exception):  # it may be meant for another
                if (found := asked(model, decay))[:-1].max() > 0:
                    return found
        return asked(to_optimize(), decay)

    def asked(model: nn.Module, decay: Tensor) -> Tensor:
        owner: Any = model if trained is None or hasattr(model, trained[1]) else SimpleNamespace(**{trained[1]: model})
        for name, value in {**kept, **dict.fromkeys(KEPT, _Kept(**kept))}.items():
            if not hasattr(owner, name):
                setattr(owner, name, value)
        with surroundings.replaced(function, around):
            groups = _groups(function(owner, **told))
        found = _decays(groups, float(decay))
        values = own_models.as_of_the_small(model, found)
        is_told_apart = is_grouped or len({*found.values()}) > 1 or (-1.0 in values and not _has_others(function))
        return torch.tensor([*values, float(is_told_apart)], dtype=torch.float64)

    return shrinks


def _has_others(function: Any) -> bool:
    """Whether something else in its file makes an optimizer, of what this one leaves out, in all likelihood: one that
    takes no matrices, nor all parameters.
    """
    nodes = parsed(file_of(function))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    makers = [one for one in functions if one.name != function.__name__ and not OF_MATRICES.search(ast.unparse(one))]
    inside = {id(node) for one in functions for node in ast.walk(one)}
    apart = [node for one in makers for node in ast.walk(one)] + [node for node in nodes if id(node) not in inside]
    made = [node for node in apart if isinstance(node, ast.Call) and OPTIMIZERS.search(ast.unparse(node.func))]
    return any(not re.search(r"\.parameters\(\)$", ast.unparse(node.args[0])) for node in made if node.args)


class _Kept(SimpleNamespace):
    """What a model is told, by its name or in a section. What else is asked for is of a schedule: no weight decay."""

    def __getattr__(self, name: str) -> Any:
        if name in SECTIONS:
            return self
        known = next((one for one in settings_of(name) if one in STEPS), None)
        if known is None:
            raise AttributeError(name)
        return STEPS[known]


def _groups(made: Any) -> Any:
    """Those of an optimizer, or of several things of which some are that; else what was made."""
    inner = made.values() if isinstance(made, dict) else made if isinstance(made, (list, tuple)) else ()
    within = (one[0] if isinstance(one, (list, tuple)) and one else one for one in inner)
    optimizers = [one for one in (made, *within) if hasattr(one, "param_groups")]
    return [group for one in optimizers for group in one.param_groups] if optimizers else made


def _decays(groups: Any, usual: float) -> dict[int, float]:
    """Parameter -> 1 if it shrinks, or 0."""
    decays = [(group, group.get("weight_decay", group.get("wd", usual))) for group in groups]
    return {id(p): float(decay > 0) for group, decay in decays for p in group["params"]}


def _meant(name: str) -> str:
    """What a parameter means, "" if nobody knows."""
    word = plain(name)
    known = (setting for setting, words in OPTIMIZER.items() if word in words)
    other = next((other for other in OTHERS if re.match(other, word)), "")
    return next(known, other or ("lr" if "lr" in word or "learningrate" in word else ""))


def _value(setting: str, settings: Mapping[str, Any]) -> Any:
    return settings.get(setting, OTHERS.get(setting))
