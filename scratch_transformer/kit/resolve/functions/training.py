"""Optimizers, clipping and sampling as functions of the canonical inputs: steps are taken, draws are made certain."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from scratch_transformer.kit.arrays.engines import Weight
from scratch_transformer.kit.arrays.libraries import libraries, libraries_of
from scratch_transformer.kit.definitions import names_in, source_of
from scratch_transformer.kit.kind import Kind
from scratch_transformer.kit.kinds.optimizing import NEUTRAL
from scratch_transformer.kit.resolve.build.construct import parameters_of
from scratch_transformer.kit.resolve.call.precision import double
from scratch_transformer.kit.resolve.functions import grouping, letters, schedules, tokenizing, windows
from scratch_transformer.kit.resolve.functions.grouping import OPTIMIZER
from scratch_transformer.kit.resolve.names.words import plain

OPTIMIZERS = ("Adam", "AdamW")
KINDS = (*OPTIMIZERS, "DecayGroups", "GradientClipping", "Sampling", "Tokenizer", "LetterTokenizer", "TextBatches")
SAMPLING = {
    "temperature": ("temperature", "temp", "tau", "t", "tmp"),
    "top_k": ("topk", "k"),
    "top_p": ("topp", "p", "threshold", "probthreshold", "pthreshold", "nucleusp", "cutoff"),
    "penalty": ("repetitionpenalty", "reppenalty", "repeatpenalty", "penalty", "reppen"),
}
"""What the parameters of a sampling function are called."""
LOGITS = (
    *("logits", "logit", "x", "scores", "inputs", "input", "in", "lastlogits", "nexttokenlogits", "nextlogits", "v"),
    *("logprobs", "lnprobs", "logp"),
)


def is_optimizer(thing: Any) -> bool:
    """A class with `step` that is made with parameters first; no schedule on top of one of torch's."""
    if not isinstance(thing, type) or issubclass(thing, nn.Module) or schedules.optimizer_of(thing):
        return False
    first = next((p.name for p in parameters_of(thing) if p.name != "self"), "")
    return callable(getattr(thing, "step", None)) and OF_PARAMETERS.match(plain(first)) is not None


OF_PARAMETERS = re.compile("(named)?param")
"""How that is called which an optimizer is made with: the parameters, or these with their names."""


def kind_of_optimizer(thing: Any) -> str:
    """Adam, of a class that is called so and that says nothing of AdamW; AdamW of any other optimizer; else ""."""
    if not is_optimizer(thing):
        return ""
    is_plain = "adam" in plain(thing.__name__) and not DECOUPLED.search(source_of(thing))
    return "Adam" if is_plain else "AdamW"


DECOUPLED = re.compile(r"(?i)adam_?w(?!ith)|decoupled")
"""What a class says of AdamW's weight decay, in its name, its words or its code."""


def takes_logits(thing: Any) -> bool:
    """Whether a function's first argument is of logits, and nothing else that it must be given is unknown."""
    parameters = parameters_of(thing) if inspect.isfunction(thing) else []
    known = {name for names in SAMPLING.values() for name in names}
    required = [p for p in parameters[1:] if p.default is p.empty]
    return bool(parameters) and plain(parameters[0].name) in LOGITS and all(plain(p.name) in known for p in required)


def methods_of(thing: Any) -> list[tuple[str, Any]]:
    """The methods of a class that are given logits and what to draw by: functions, wherever they stand.

    Static ones; and those of a class that is no module and is made with nothing else, TopP(p).sample(logits).
    """
    members = vars(thing).items() if isinstance(thing, type) else ()
    found = [(name, one.__func__) for name, one in members if isinstance(one, staticmethod)]
    found += [(name, one) for name, method in members if (one := _of_a_sampler(thing, method)) is not None]
    known = {name for names in SAMPLING.values() for name in names}
    given = {name: {plain(p.name) for p in parameters_of(function)[1:]} for name, function in found}
    return [(name, function) for name, function in found if takes_logits(function) and given[name] & known]


def _of_a_sampler(cls: Any, method: Any) -> Callable[..., Any] | None:
    """A method that draws, as a function of the logits and of all that it and its class are told; None of others."""
    if issubclass(cls, nn.Module) or not inspect.isfunction(method) or "multinomial" not in names_in(method):
        return None
    parameters = [p for p in parameters_of(method) if p.name != "self"]
    if not parameters or plain(parameters[0].name) not in LOGITS or method.__name__ == "__call__":
        return None
    first, *own = parameters
    of_class = [p for p in parameters_of(cls) if p.name not in {parameter.name for parameter in own}]

    @functools.wraps(method)
    def draw(logits: Tensor, **told: Any) -> Any:
        made = cls(**{p.name: told.pop(p.name) for p in of_class if p.name in told})
        return method(made, logits, **told)

    taken = [p.replace(kind=p.KEYWORD_ONLY) for p in (first.replace(name="logits"), *own, *of_class)]
    draw.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]
    return draw


def draws(thing: Any) -> bool:
    """Whether a function of logits and of a temperature, top-k or top-p draws, by torch.multinomial or Categorical."""
    names = {plain(p.name) for p in parameters_of(thing)} if takes_logits(thing) else set[str]()
    is_told = bool(names & {"temperature", "temp", "topk", "topp"})
    return is_told and not {"multinomial", "Categorical"}.isdisjoint(names_in(thing))


def clips(thing: Any) -> bool:
    """Whether a function that is called after clipping is given weights, gradients or a model, and a limit."""
    if not inspect.isfunction(thing) or "clip" not in plain(thing.__name__):
        return False
    given = [plain(p.name) for p in parameters_of(thing) if p.default is p.empty]
    is_named = re.match("param|grad|model|net", given[0]) is not None if given else False
    is_given = len(given) == 2 and (is_named or "grad" in names_in(thing))
    return is_given and any("grad" in name for name in (given[0], *names_in(thing)))


def told(thing: Any, kind: Kind, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that something can be told; the others are neutral."""
    words = [plain(p.name) for p in parameters_of(thing)]
    if kind.name in OPTIMIZERS and not set(words) & set(OPTIMIZER["weight_decay"]):
        return {"weight_decay": 0.0}
    if kind.name == "Tokenizer":
        return tokenizing.told(thing)
    if kind.name == "LetterTokenizer":
        return letters.told(thing)
    if kind.name == "TextBatches":
        return windows.told(thing)
    if kind.name == "Sampling":
        return {name: settings[name] if set(words) & set(SAMPLING[name]) else NEUTRAL[name] for name in SAMPLING}
    return {}


def reading(
    thing: Any, kind: Kind, settings: Mapping[str, Any], judged: Mapping[Any, Any]
) -> Callable[..., Any] | None:
    """Something of these kinds as a function of their inputs. judged: what of the learner's was judged already."""
    if kind.name == "Tokenizer":
        return tokenizing.reading(thing, settings)
    if kind.name == "LetterTokenizer":
        return letters.reading(thing, settings)
    if kind.name == "TextBatches":
        return windows.reading(thing, settings)
    if kind.name in OPTIMIZERS:
        return _stepping(thing, settings)
    if kind.name == "DecayGroups":
        return grouping.reading(thing, settings, judged)
    return _clipping(thing, settings) if kind.name == "GradientClipping" else _drawing(thing, settings)


def _named(thing: Any, names: Mapping[str, tuple[str, ...]], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Parameter -> the setting that its name means."""
    return {
        p.name: settings[setting]
        for p in parameters_of(thing)
        for setting, words in names.items()
        if plain(p.name) in words
    }


# ---- Optimizers ----


def _by_default(cls: Any, named: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Of other names, by what they are unless they are told: momentum_decay=0.9, variance_decay=0.999, tiny=1e-8."""
    open_ = [p for p in parameters_of(cls) if p.name not in named and isinstance(p.default, float)]
    told = {setting for p in parameters_of(cls) for setting, words in OPTIMIZER.items() if plain(p.name) in words}
    likely = {"beta1": lambda x: 0.8 <= x <= 0.92, "beta2": lambda x: 0.93 <= x < 1, "eps": lambda x: 0 < x <= 1e-5}
    found = {}
    for setting, fits in likely.items():
        meant = [p.name for p in open_ if fits(p.default)]
        if setting not in told and len(meant) == 1:
            found[meant[0]] = settings[setting]
    return found


def _weight(values: Tensor, thing: Any) -> Any:
    """A parameter of these values; for what computes with NumPy alone one of arrays."""
    used = libraries_of(thing) if isinstance(thing, type) else libraries(thing)
    return Weight(values.numpy().copy()) if used == {"numpy"} else nn.Parameter(values.clone())


def _gradient(values: Tensor, parameter: Any) -> Any:
    return values.numpy().copy() if isinstance(parameter, Weight) else values.clone()


def _stepping(cls: Any, settings: Mapping[str, Any]) -> Callable[..., Any]:
    options = _named(cls, OPTIMIZER, settings)
    options |= _by_default(cls, options, settings)
    options |= {p.name: (settings["beta1"], settings["beta2"]) for p in parameters_of(cls) if plain(p.name) == "betas"}

    is_named = any(plain(p.name).startswith("named") for p in parameters_of(cls)[:1])

    def steps(weights: Tensor, gradients: Tensor) -> Tensor:
        parameter = _weight(weights, cls)
        optimizer, found = cls([("weight", parameter) if is_named else parameter], **options), []
        for gradient in gradients:
            parameter.grad = _gradient(gradient, parameter)
            with torch.no_grad():
                optimizer.step()
            found.append(torch.as_tensor(parameter.data).clone())
        return torch.stack(found)

    return steps


# ---- Clipping ----


def _clipping(function: Any, settings: Mapping[str, Any]) -> Callable[..., Any]:
    first, *others = parameters_of(function)
    limit = next((p.name for p in others if "eps" not in plain(p.name)), None)
    options = {} if limit is None else {limit: settings["max_norm"]}

    def clipped(gradients: list[Tensor], hand: Callable[[list[Any]], Iterable[Any]] = list) -> Tensor:
        weights = [_weight(torch.zeros_like(g), function) for g in gradients]
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.grad = _gradient(gradient, weight)
        is_model = plain(first.name) in ("model", "net")
        given = nn.ParameterList(weights) if is_model else hand(weights)
        if "grad" in plain(first.name):
            given = [weight.grad for weight in weights]
        returned = function(given, **options)
        if "grad" in plain(first.name) and isinstance(returned, (list, tuple)):
            return torch.cat([torch.as_tensor(g).flatten() for g in returned])
        return torch.cat([torch.as_tensor(one.grad).flatten() for one in weights if one.grad is not None])

    def reading(gradients: list[Tensor]) -> Tensor:
        return clipped(gradients)

    reading.written = function  # type: ignore[attr-defined]
    reading.of_generator = functools.partial(clipped, hand=iter)  # type: ignore[attr-defined]
    return reading


# ---- Sampling ----


class Certain(TorchFunctionMode):
    """torch.multinomial gives the id at a place, and tells with which probability it would have been drawn."""

    def __init__(self, place: int) -> None:
        super().__init__()
        self.place, self.probability = place, 0.0
        self.used = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.multinomial, Tensor.multinomial):
            weights = (args[0] if args else kwargs["input"]).double()
            self.used, place = True, min(self.place, weights.shape[-1] - 1)
            share = weights / weights.sum(-1, keepdim=True)
            self.probability = float(share.flatten()[place]) if self.place < weights.shape[-1] else 0.0
            return torch.full((*weights.shape[:-1], 1), place, dtype=torch.long)
        return func(*args, **(kwargs or {}))


Form = Callable[[Tensor], Tensor]


def _drawing(function: Any, settings: Mapping[str, Any], known: Sequence[Form] = ()) -> Callable[..., Any]:
    """known: the forms in which it takes logits."""
    first = parameters_of(function)[0].name
    options = _named(function, SAMPLING, settings)
    forms: list[Form] = [*known] or [lambda x: x[None], lambda x: x]
    if not known and ALONG_FIRST.search(source_of(function)):
        forms.reverse()

    def probabilities(logits: Tensor) -> Tensor:
        error: Exception | None = None
        for form in forms:
            try:
                found = _of_all(functools.partial(_asked, function, first, form, options), logits)
            except Exception as raised:  # it takes one sentence's logits, or those of several
                error = error or raised
            else:
                forms.sort(key=lambda one: one is not form)
                return found
        assert error is not None
        raise error

    def told(**changes: Any) -> Callable[..., Any]:
        """The same, told something else, and given logits in the form that it took first."""
        return _drawing(function, {**settings, **changes}, forms[:1])

    probabilities.written, probabilities.told = function, told  # type: ignore[attr-defined]
    return probabilities


ALONG_FIRST = re.compile(r"softmax\([^()]*\b(dim|axis) *= *0\b")
"""Words are along the first axis: it takes the logits of one sentence."""


def _asked(
    function: Any, first: str, form: Callable[[Tensor], Tensor], options: Mapping[str, Any], logits: Tensor
) -> Any:
    return function(**{first: form(logits.clone())}, **options)


def _of_all(draw: Callable[[Tensor], Any], logits: Tensor) -> Tensor:
    """The probability of every id: that of the place which leads to it; of a function that draws none, its softmax."""
    found = torch.zeros_like(logits)
    for place in range(len(logits)):
        with Certain(place) as certain, double():
            drawn = draw(logits)
        drawn = drawn[0] if isinstance(drawn, tuple) else drawn
        if not certain.used:
            return _as_probabilities(torch.as_tensor(drawn).reshape(-1), logits)
        found[int(torch.as_tensor(drawn).reshape(-1)[0])] += certain.probability
    return found


def _as_probabilities(values: Tensor, logits: Tensor) -> Tensor:
    if values.shape != logits.shape or not values.is_floating_point():
        raise TypeError("it draws nothing by torch.multinomial, and returns neither logits nor probabilities")
    is_normal = bool((values >= 0).all()) and abs(float(values.sum()) - 1) < 1e-6
    return values if is_normal else values.softmax(-1)
