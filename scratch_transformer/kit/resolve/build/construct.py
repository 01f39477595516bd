"""Builds a learner's class from settings: constructor parameters by synonym, config object, submodule or trial."""

from __future__ import annotations

import copy
import inspect
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from scratch_transformer.kit.resolve.build import config
from scratch_transformer.kit.resolve.build.config import Unknown
from scratch_transformer.kit.resolve.names.settings import FLAGS, SCALES, is_setting, settings_of
from scratch_transformer.kit.resolve.names.words import plain

GENERAL: dict[str, Any] = {
    "d_model": 12, "num_heads": 3, "d_ff": 17, "eps": 1e-5, "dropout": 0.0, "vocab_size": 11, "src_vocab_size": 11,
    "tgt_vocab_size": 13, "num_layers": 2, "max_len": 19, "pad": 0, "label_smoothing": 0.0, "warmup": 40,
    "src_pad": 0, "tgt_pad": 1,
    "factor": 1.0, "d_ff/d_model": 2,
}  # fmt: skip
"""For what a kind has no setting of its own."""
MOST_ATTEMPTS = 24
SHARING = re.compile(r"shar(e|ed|ing)|^tie|tied|tying")
"""Of weights: vocabularies of two sizes cannot share theirs."""
FLAG = re.compile(r"^(return|output|log|use|using|need|with|is|has|save|store|verbose|share|tie)(?!put)")
"""How the names of parameters begin that are True or False."""
OUT = ("dout", "dimout", "outdim", "outputdim", "outfeatures")
ROTARY_BASE = re.compile(r"^base$|theta|ropebase|maxwavelength")

Part = Callable[[str], list[Callable[[], Any]]]
"""A parameter's name -> ways to make the submodule that it may mean."""


@dataclass
class Attempt:
    """A way to call a constructor. used: the settings that went into it; a config is asked for some while it builds."""

    cls: Any
    args: dict[str, Any]
    used: dict[str, Any] = field(default_factory=dict)
    value: Callable[[str], Any] | None = None
    """A parameter's name -> its value."""

    def build(self) -> Any:
        """The instance in float64 and evaluation mode; its initial weights are the same every time."""
        torch.manual_seed(0)
        try:
            made = self.cls(**copy.deepcopy(self.args))
        except TypeError as error:
            made = self.cls(**copy.deepcopy({**self.args, **self._passed_on(error)}))
        return made.double().eval() if isinstance(made, nn.Module) else made

    def _passed_on(self, error: TypeError) -> dict[str, Any]:
        """Values for what a class passes on to its parts as **options, when one of them misses it."""
        names = re.findall(r"'(\w+)'", str(error)) if "required" in str(error) else []
        takes_any = any(p.kind is p.VAR_KEYWORD for p in inspect.signature(self.cls).parameters.values())
        if not names or not takes_any or self.value is None or set(names) & self.args.keys():
            raise error
        return {name: self.value(name) for name in names}

    def alike(self, made: Any) -> tuple[Any, ...]:
        """The same for what only another config object has made again."""
        sizes = [(n, tuple(v.shape)) for n, v in made.state_dict().items()] if isinstance(made, nn.Module) else []
        plain_values = [(n, v) for n, v in self.args.items() if isinstance(v, (bool, str, int, float, type(None)))]
        return type(made), str(made), tuple(sizes), tuple(plain_values)


class Values:
    """A parameter's name -> its value by the settings; records what was asked for. given: values fixed by name."""

    def __init__(self, settings: Mapping[str, Any], given: Mapping[str, Any]) -> None:
        self.own = set(settings)
        self.settings = {**GENERAL, **settings}
        if "d_k" not in settings:
            self.settings["d_k"] = self.settings["d_model"] // self.settings["num_heads"]
        self.given = {plain(name): value for name, value in given.items()}
        self.used: dict[str, Any] = {}
        self.names: dict[str, str] = {}
        """Setting -> the parameter that asked for it first."""

    def __call__(self, name: str) -> Any:
        if self.fixes(name):
            self.used[plain(name)] = self.given[plain(name)]
            return self.given[plain(name)]
        one_side = [setting[4:] for setting in settings_of(name) if setting[:4] in ("src_", "tgt_")]
        for setting in one_side:  # an encoder's source vocabulary is its vocabulary
            if setting in self.own:
                self.used[setting] = self.settings[setting]
                return self.settings[setting]
        meanings = settings_of(name)
        for setting in sorted(meanings, key=lambda meant: (meant not in self.own, self._is_taken(meant, name))):
            if setting in self.settings:
                self.used[setting] = self.settings[setting]
                self.names.setdefault(setting, name)
                return self.settings[setting]
        raise Unknown(name)

    def fixes(self, name: str) -> bool:
        """Whether the value is given, and not one of the settings."""
        return plain(name) in self.given

    @property
    def is_attention(self) -> bool:
        """Whether the settings are those of an attention and nothing else."""
        return "num_heads" in self.own and "d_ff" not in self.own

    def scales(self, word: str) -> list[float]:
        """What scores are divided by, or multiplied with: both are tried."""
        divisor = float(self.settings["d_k"]) ** 0.5
        return [1 / divisor, divisor] if SCALES[word] else [divisor, 1 / divisor]

    def reserve(self, names: Iterable[str]) -> None:
        """What can mean one thing only does: beside hid_dim, input_dim is the size of the vocabulary."""
        for name in names:
            meanings = settings_of(name)
            if len(meanings) == 1 and is_setting(name):
                self.names.setdefault(meanings[0], name)

    def _is_taken(self, setting: str, name: str) -> bool:
        """Another parameter means this: beside d_model, `hidden` is d_ff."""
        return self.names.get(setting, name) != name


def parameters_of(function: Any) -> list[inspect.Parameter]:
    """Named parameters of a callable; [] for one without a signature."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def attempts(
    cls: Any, settings: Mapping[str, Any], namespace: Mapping[str, Any], parts: Part, given: Mapping[str, Any]
) -> Iterator[Attempt]:
    """Ways to call the constructor, the likeliest first. given: arguments that a person has fixed, by name.

    Raises Unknown, with the parameter's name, if one has no value at all.
    """
    options: dict[str, list[Any]] = {}
    values = Values(settings, given)
    values.reserve(parameter.name for parameter in parameters_of(cls))
    for parameter in parameters_of(cls):
        found = [given[parameter.name]] if parameter.name in given else _options(parameter, values, namespace, parts)
        if found:
            options[parameter.name] = found
        elif parameter.default is parameter.empty:
            raise Unknown(parameter.name)
    ranked = sorted(itertools.product(*(range(len(found)) for found in options.values())), key=sum)
    for choice in ranked[:MOST_ATTEMPTS]:
        args = {name: found[index] for (name, found), index in zip(options.items(), choice, strict=True)}
        try:
            made = {name: value() if isinstance(value, _Lazy) else value for name, value in args.items()}
        except Exception:  # a submodule that cannot be built; perhaps another can
            continue
        yield Attempt(cls, made, values.used, values)


@dataclass(frozen=True)
class _Lazy:
    make: Callable[[], Any]

    def __call__(self) -> Any:
        return self.make()


def _options(parameter: inspect.Parameter, values: Values, namespace: Mapping[str, Any], parts: Part) -> list[Any]:
    """What a parameter may be, the likeliest first; [] to leave it at its default."""
    name, default, word = parameter.name, parameter.default, plain(parameter.name)
    hint = (
        parameter.annotation if isinstance(parameter.annotation, str) else getattr(parameter.annotation, "__name__", "")
    )
    submodules: list[Any] = [_Lazy(make) for make in parts(name)]
    if any(text in hint for text in ("Module", "Block", "Layer", "Attention", "Encoder", "Decoder", "Embedding")):
        return submodules or _numbers(name, values)
    if config.is_config(parameter) and default in (parameter.empty, None):
        return config.instances(parameter, namespace, values)
    if default is True and SHARING.search(word):
        return [False]
    if word in SCALES and values.is_attention and default is parameter.empty:
        return values.scales(word)
    if isinstance(default, bool) or hint == "bool":
        return [FLAGS[word]] if word in FLAGS else ([] if default is not parameter.empty else [True])
    if isinstance(default, str) or (callable(default) and default is not parameter.empty):
        return []
    if word == "device":
        return ["cpu"]
    if word == "dtype":
        return []
    numbers = [] if submodules and not is_setting(name) else _numbers(name, values)
    if word == "eps" and isinstance(default, float) and not numbers:
        return []
    if numbers or submodules:
        if default is None and not numbers:
            return []
        return [*numbers, *submodules] if numbers else submodules
    if default is not parameter.empty:
        return []
    return [FLAGS[word]] if word in FLAGS else _guesses(hint, word, values)


def _numbers(name: str, values: Values) -> list[Any]:
    try:
        number = values(name)
    except Unknown:
        return []
    if plain(name) in ("normshape", "normalizedshape", "parametersshape"):
        return [number, [number]]
    others = [values.settings[s] for s in settings_of(name) if s in values.settings]
    if plain(name) in OUT and values.is_attention:  # of every head, where their outputs are joined
        others.append(values.settings["d_k"])
    return list(dict.fromkeys([number, *others]))


def _guesses(hint: str, word: str, values: Values) -> list[Any]:
    """A required parameter that no name explains."""
    if "act" in word or "nonlin" in word:
        return ["relu", nn.ReLU(), torch.relu]
    if "bool" in hint or FLAG.match(word):
        return [False, True]
    if ROTARY_BASE.search(word):
        return [10000.0]
    if "float" in hint:
        return [0.0]
    if "str" in hint:
        return ["cpu"]
    known = values.settings
    return [known["d_model"], known["num_heads"], known["max_len"], None]


# ---- Globals ----


def override_globals(
    namespace: dict[str, Any], names: set[str], settings: Mapping[str, Any], own: set[str]
) -> dict[str, Any]:
    """Sets module-level hyperparameters (n_embd, block_size) to the settings. Returns the names with their settings.

    names: the globals that the learner's functions read. own: names that are defined in the source.
    """
    values, changed = Values(settings, {}), {}
    for name in sorted(names):
        present = name in namespace
        value = namespace.get(name)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if (present and not is_number) or (not present and name not in own and len(name) < 3):
            continue
        if not present and hasattr(__builtins__, name):
            continue
        try:
            namespace[name] = values(name)
        except Unknown:
            if not present and plain(name) == "device":
                namespace[name] = "cpu"
            continue
        changed[name] = namespace[name]
    return changed
