"""Builds a learner's class from settings: what may be given for its parameters, combined, mended by what it raises."""

from __future__ import annotations

import ast
import copy
import inspect
import itertools
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from scratch_transformer.kit import clock
from scratch_transformer.kit.definitions import is_module_class, names_in, namespace_of, parameters_of
from scratch_transformer.kit.judge.frames import frames_of, nodes_at
from scratch_transformer.kit.judge.told_by_calls import told_by_calls
from scratch_transformer.kit.resolve.build import config, options, tokenizer
from scratch_transformer.kit.resolve.build.config import Unknown
from scratch_transformer.kit.resolve.build.options import Lazy, Part
from scratch_transformer.kit.resolve.build.reading import Use, uses_of
from scratch_transformer.kit.resolve.build.tokenizer import is_tokenizer
from scratch_transformer.kit.resolve.build.values import Values
from scratch_transformer.kit.resolve.names.settings import CROSSING, SCALES_BY, is_called_head, is_setting, settings_of
from scratch_transformer.kit.resolve.names.words import plain

MOST_ATTEMPTS, MOST_REPAIRS = 24, 3


@dataclass
class Attempt:
    """A way to call a constructor. used: the settings that went into it; a config is asked for some while it builds.

    error: what it raised.
    """

    cls: Any
    args: dict[str, Any]
    used: dict[str, Any] = field(default_factory=dict)
    value: Callable[[str], Any] | None = None
    """A parameter's name -> its value."""
    repairs: int = 0
    error: Exception | None = None

    def build(self) -> Any:
        """The instance in float64 and evaluation mode; its initial weights are the same every time."""
        clock.count(clock.BUILT)
        torch.default_generator.manual_seed(0)  # torch.manual_seed would format the stack for three sorts of devices
        try:
            made = self._made()
            modules = [one for one in made if isinstance(one, nn.Module)] if isinstance(made, tuple) else []
            made = modules[0] if len(modules) == 1 else made  # return model, optimizer
            clock.count(clock.of_building(made))
            return made.double().eval() if isinstance(made, nn.Module) else made
        except Exception as error:
            self.error = error
            raise

    def bare(self) -> tuple[list[str], Exception] | None:
        """The numbers that it was given where None is the default, and what it stops with as they are left out."""
        given = {name for name, value in self.args.items() if type(value) in (int, float)}
        free = [p.name for p in parameters_of(self.cls) if p.default is None and p.name in given]
        try:
            if free:
                replace(self, args={name: value for name, value in self.args.items() if name not in free}).build()
        except Exception as error:  # the learner's code may raise anything
            return free, error
        return None

    def _made(self) -> Any:
        try:
            return self.cls(**copy.deepcopy(self.args))
        except TypeError as error:
            return self.cls(**copy.deepcopy({**self.args, **self._passed_on(error)}))

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
        try:
            words = str(made)
        except Exception:  # the learner's own extra_repr
            words = ""
        return type(made), words, tuple(sizes), tuple(plain_values)

    @property
    def classes(self) -> str:
        """Which classes it is told to make parts of, in a sentence; "" if none."""
        given = [f"{name}={v.__name__}" for name, v in self.args.items() if is_module_class(v)]
        return f"It makes its parts of classes that it is given: {', '.join(given)}." if given else ""

    @property
    def reached(self) -> int:
        """The line of the constructor at which it stopped."""
        trace = self.error.__traceback__ if self.error is not None else None
        code = getattr(getattr(self.cls, "__init__", self.cls), "__code__", None)
        line = 0
        while trace is not None:
            if trace.tb_frame.f_code is code:
                line = trace.tb_lineno
            trace = trace.tb_next
        return line


def annotated(thing: Any) -> list[type]:
    """The classes of modules that a constructor's parameters are annotated with."""
    return list(annotations_of(thing).values()) if isinstance(thing, type) else []


def annotations_of(thing: Any) -> dict[str, type]:
    """A constructor's parameter -> the class of modules that it is annotated with: also as Part | None, and as text."""
    found = {p.name: _class_of(_said_of(p), namespace_of(thing)) for p in parameters_of(thing)}
    return {name: cls for name, cls in found.items() if cls is not None}


def _said_of(parameter: inspect.Parameter) -> Any:
    """Its annotation; where it has none, the class that is its default: encoder=Encoder, for encoder: Encoder."""
    is_open = parameter.annotation is parameter.empty and isinstance(parameter.default, type)
    return parameter.default if is_open else parameter.annotation


def _as_meant(parameter: inspect.Parameter, use: Use | None) -> inspect.Parameter:
    """A class by default that nothing makes anything of, and a method calls, or goes through: an instance is meant."""
    cls = _said_of(parameter)
    is_class = is_module_class(cls) and isinstance(parameter.default, type)
    if not is_class or use is None or use.called or not (use.applied or use.listed):
        return parameter
    return parameter.replace(default=parameter.empty, annotation=cls)


def _class_of(annotation: Any, namespace: Mapping[str, Any]) -> type | None:
    if isinstance(annotation, str):
        try:
            annotation = eval(annotation, dict(namespace))
        except Exception:  # a name that only type checkers see
            return None
    choices = [one for one in typing.get_args(annotation) if one is not type(None)]
    is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    annotation = choices[0] if is_union and len(choices) == 1 else annotation
    return annotation if is_module_class(annotation) and annotation is not nn.Module else None


def _is_told_its_width(cls: Any, uses: Mapping[str, Use]) -> bool:
    """Whether what a class calls n_head is how wide it is, as it is one head: Head(n_in, n_head)."""
    is_told = any("d_k" in settings_of(parameter.name) for parameter in parameters_of(cls))
    divides = any("num_heads" in use.meant for use in uses.values())
    return is_called_head(getattr(cls, "__name__", "")) and not (is_told or divides)


def _is_told_otherwise(cls: Any, parameter: inspect.Parameter) -> bool:
    """Whether every call in the file turns a flag that nothing is known of: scale=True, bias=False of what has none.

    A bias is so where a subclass of PyTorch's layer computes without it: Linear(nn.Linear).
    """
    if parameter.default is True:
        asks = parameter.name == "bias" and "__init__" not in vars(cls) and "bias" not in names_in(cls)
    else:
        asks = parameter.default is False and SCALES_BY.fullmatch(plain(parameter.name)) is not None
    return asks and set(told_by_calls(cls, parameter.name)) == {not parameter.default}


def attempts(
    cls: Any,
    settings: Mapping[str, Any],
    namespace: Mapping[str, Any],
    parts: Part,
    given: Mapping[str, Any],
    takes_memory: bool = False,
) -> Iterator[Attempt]:
    """Ways to call the constructor, the likeliest first; after one that failed, what its error suggests.

    given: arguments that a person has fixed, by name. takes_memory: whether it is to attend to an encoder's output.

    Raises Unknown, with the parameter's name, if one has no value at all.
    """
    choices: dict[str, list[Any]] = {}
    uses = uses_of(cls)
    values = Values(settings, given, _is_told_its_width(cls, uses))
    read = (name for use in uses.values() if use.is_config for name in (*use.attributes, *use.keys))
    parameters = [*parameters_of(cls), *_options_of(uses)]
    compared = [name for name, use in uses.items() if "pad" in use.meant and not use.is_config]
    values.reserve([*(parameter.name for parameter in parameters), *sorted(read)], compared)
    takes_classes = any(use.called for use in uses.values())
    for parameter in parameters:
        use = uses.get(parameter.name)
        parameter = _as_meant(parameter, use)
        if takes_classes and use is not None and not use.applied and parts(parameter.name):
            use = replace(use, called=True)  # a class, too, that is handed on to what is made
        wish = options.wish(parameter, use, cls, namespace)
        found = [given[parameter.name]] if parameter.name in given else options.options(wish, values, parts)
        if takes_memory and not found and parameter.default is False and CROSSING.search(parameter.name):
            found = [True, False]
        if parameter.name not in given and _is_told_otherwise(cls, parameter):
            found = [not parameter.default]
        if found:
            choices[parameter.name] = found
        elif parameter.default is parameter.empty:
            raise Unknown(parameter.name)
    refused = ""
    are_asked = bool(settings.get("num_heads")) and settings.get("d_model", 0) % settings["num_heads"] != 0
    for args in itertools.islice(_combined(choices, are_asked, values), MOST_ATTEMPTS):
        made: dict[str, Any] = {}
        try:
            for name, value in args.items():
                made[name] = value() if isinstance(value, Lazy) else value
        except Exception as error:  # a submodule that cannot be built; perhaps another can
            missing = next(name for name in args if name not in made)
            refused = refused or f"{missing}, and what that may be cannot be built ({type(error).__name__}: {error})"
            continue
        refused = "no"
        yield from _mended(Attempt(cls, made, values.used, values), uses, values)
    if refused not in ("", "no"):
        raise Unknown(refused)


def _options_of(uses: Mapping[str, Use]) -> Iterator[inspect.Parameter]:
    """What a constructor takes out of its **options by name: kwargs["d_model"], kwargs.get("heads", 8)."""
    for name, use in uses.items():
        for key in sorted(use.keys - uses.keys()) if name.startswith("**") else ():
            if key.isidentifier() and (key not in use.optional or settings_of(key)):
                yield inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY)


def _combined(choices: Mapping[str, list[Any]], any_heads: bool, values: Values) -> Iterator[dict[str, Any]]:
    """One choice for every parameter, the likeliest together.

    any_heads: also heads that do not divide the model, which are asked for to see whether it refuses them.
    """
    ranked = sorted(itertools.product(*(range(len(found)) for found in choices.values())), key=sum)
    for choice in ranked:
        args = {name: found[index] for (name, found), index in zip(choices.items(), choice, strict=True)}
        models, heads = (
            [v for n, v in args.items() if values.meanings(n) == (setting,) and is_setting(n) and type(v) is int]
            for setting in ("d_model", "num_heads")
        )
        if any_heads or not any(max(models, default=0) % head for head in heads if head):
            yield args


def _mended(attempt: Attempt, uses: Mapping[str, Use], values: Values) -> Iterator[Attempt]:
    """The attempt, and when that has failed, others with what its error asks for."""
    yield attempt
    if attempt.error is None or attempt.repairs >= MOST_REPAIRS:
        return
    changed = _asked_for(attempt, str(attempt.error), uses, values) or _left_open(attempt)
    if changed:
        args = {**attempt.args, **changed}
        yield from _mended(replace(attempt, args=args, repairs=attempt.repairs + 1, error=None), uses, values)


def _asked_for(attempt: Attempt, text: str, uses: Mapping[str, Use], values: Values) -> dict[str, Any]:
    """Other arguments, by what an error says is wrong with those that were given."""
    if "torch.nn.Parameter or None expected" in text:
        return _weights_for(attempt)
    found = re.search(r"'(\w+)' object (has no attribute '(\w+)'|is not (callable|iterable|subscriptable))", text)
    if found is None:
        if re.search(r"float' object cannot be interpreted|got \(?float|not float|of type float", text):
            return {n: int(v) for n, v in attempt.args.items() if type(v) is float and v.is_integer()}
        return _numbers_for(attempt, text, values) or _of_length(attempt, text, uses, values) or _among(attempt, uses)
    culprits = [n for n, v in attempt.args.items() if type(v).__name__ == found[1]]
    told = [n for n in culprits if _explains(uses.get(n, Use()), found)]
    if found[4] == "iterable" and not told and (open_ones := _left_open(attempt)):
        return open_ones
    told = told or culprits
    vocabularies = _vocabularies(attempt, told, found[3] or "", uses, values)
    if vocabularies:
        return vocabularies
    for name in told:
        if found[3] or found[4] == "subscriptable":
            return {name: config.Config(values)}
        if found[4] == "iterable":
            return {name: [attempt.args[name]] * values.settings["num_layers"]}
        if found[4] == "callable":
            return {name: nn.ReLU()} if not uses.get(name, Use()).called else {name: nn.LayerNorm}
    return {}


def _weights_for(attempt: Attempt) -> dict[str, Any]:
    """A parameter of the shape of that in whose place it is put: self.linear.weight = shared_weights."""
    error = attempt.error or Exception()
    frames = frames_of(error)
    owner, name = (frames[-1].f_locals.get(word) for word in ("self", "name")) if frames else (None, None)
    held = owner._parameters.get(str(name)) if isinstance(owner, nn.Module) else None
    given = [ast.unparse(node.value) for frame in frames for node in nodes_at(error, frame, ast.Assign)]
    named = [one for one in given if one in attempt.args]
    return {named[0]: nn.Parameter(torch.randn(held.shape))} if held is not None and named else {}


def _left_open(attempt: Attempt) -> dict[str, Any]:
    """None for every number where None is the default: it may not be a number that is wanted, but a list of layers."""
    optional = [p.name for p in parameters_of(attempt.cls) if p.default is None]
    return {name: None for name in optional if type(attempt.args.get(name)) in (int, float)}


def _numbers_for(attempt: Attempt, text: str, values: Values) -> dict[str, Any]:
    """Numbers in place of parts that are computed with: d_attention ** 0.5, where an attention was given."""
    found = re.search(r"unsupported operand type\(s\) for .*: '(\w+)' and '(\w+)'", text)
    refused = found.groups() if found else ()
    parts = [n for n, v in attempt.args.items() if isinstance(v, nn.Module) and type(v).__name__ in refused]
    return dict.fromkeys(parts, values.settings["d_model"])


def _vocabularies(
    attempt: Attempt, told: list[str], attribute: str, uses: Mapping[str, Use], values: Values
) -> dict[str, Any]:
    """A vocabulary or tokenizer in place of its size: by the parameter's name, or by what it is asked for."""
    found: dict[str, Any] = {}
    for name in told:
        use = uses.get(name, Use())
        asked = {attribute, *use.attributes} - {""}
        known = [tokenizer.KNOWS.search(one) is not None for one in asked]
        is_one = "vocab" in "".join(settings_of(name)) or is_tokenizer(name)
        if (is_one and (any(known) or not (use.is_config and asked))) or (attribute and all(known)):
            found[name] = options.vocabulary(name, values)
    return {n: v for n, v in found.items() if not isinstance(attempt.args[n], tokenizer.Tokenizer)}


def _explains(use: Use, found: re.Match[str]) -> bool:
    """Whether the use of a parameter is what an error complains of."""
    if found[3]:
        return found[3] in use.attributes
    return {"callable": use.called, "iterable": use.listed, "subscriptable": bool(use.keys) or use.listed}[found[4]]


def _among(attempt: Attempt, uses: Mapping[str, Use]) -> dict[str, Any]:
    """A text that the class knows, for one that it does not: activation="ReLU", where "ReLu" is the default."""
    for parameter in parameters_of(attempt.cls):
        value = attempt.args.get(parameter.name, parameter.default)
        known = [word for word in uses.get(parameter.name, Use()).compared if isinstance(word, str)]
        if isinstance(value, str) and known and value not in known:
            return {parameter.name: min(known, key=lambda word: word.lower() != value.lower())}
    return {}


def _of_length(attempt: Attempt, text: str, uses: Mapping[str, Use], values: Values) -> dict[str, Any]:
    """len(vocabulary), word in vocabulary in place of its size: of those whose length is taken, else of all."""
    if "has no len()" not in text and "argument of type 'int' is not iterable" not in text:
        return {}
    nameless = [n for n, v in attempt.args.items() if type(v) is int and not settings_of(n)]
    sizes = {n: v for n, v in attempt.args.items() if type(v) is int and "vocab" in "".join(settings_of(n))}
    measured = [name for name in sizes if uses.get(name, Use()).measured]
    others = [n for n, v in attempt.args.items() if type(v) is int and uses.get(n, Use()).measured]
    return {name: options.vocabulary(name, values) for name in measured or others or sizes or nameless}
