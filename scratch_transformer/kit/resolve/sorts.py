"""What is no part of a Transformer, or is not known as one: what it is instead, in a few words."""

from __future__ import annotations

import ast
import builtins
import dis
import enum
import inspect
import re
import sys
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from scratch_transformer.kit.arrays.classes import BACKWARD, as_module
from scratch_transformer.kit.definitions import (
    codes_of,
    is_module_class,
    leads_to,
    names_in,
    nodes_of,
    parameters_of,
    source_of,
)
from scratch_transformer.kit.discover.survey import is_main_guard
from scratch_transformer.kit.judge.frames import frames_of, parsed
from scratch_transformer.kit.report.finding import IN_IT
from scratch_transformer.kit.resolve import foreign
from scratch_transformer.kit.resolve.functions import grouping, letters, methods, schedules, tokenizing
from scratch_transformer.kit.resolve.names.inputs import input_of
from scratch_transformer.kit.resolve.names.words import plain, words
from scratch_transformer.kit.syntax import SCOPES, is_stored

SETTINGS, DATA, OF_TEXTS, A_BASE, AN_ERROR = "settings", "data", "of a tokenizer", "an abstract base", "an error"
TRAINS, MEASURES, SHOWS = "it trains a model: read, not run", "it measures a model", "it shows or logs"
NO_MODULE, NO_MODULE_CALLED = "no nn.Module, and it cannot be called", "no nn.Module"
A_LOSS = "a loss of another sort"
LAUNCHES = "it launches a kernel, which needs a GPU"
KEEPS, RUNS, SEEDS, BEGINS = "it saves or loads", "a program", "it seeds", "it sets first weights"
A_PIECE, NOT_MADE = "a piece of {}", f"{foreign.READS}{{}}, which {{}}"
A_PART = f"{A_PIECE}{IN_IT}"
ON_A_MODEL = "it works on a model that it is given"
HANDS_ON = "it hands on whatever it is given"
IN_MAIN, NOWHERE, NOT_RUN = "only the main block makes", "nothing makes", "is made where nothing was run"
UNKNOWN, UNKNOWN_MODULE = "neither its name nor its code is a known part's", "no known part does that with ({})"

OTHER_OPTIMIZER = "an optimizer that is no AdamW"
OTHER_RATES = "a learning rate that follows no known schedule"
NO_RATES = "its rates are none of those that are known"
JUDGED_WITHIN = "{}; its {} {} judged"
WRITES_OTHERWISE = "it asks no model for one word after the other"
STEPS_OF_TRAINING = "(training|validation|test|train|val) (step|epoch|loop|one epoch)|fit"
BY_WORDS = {
    A_LOSS: r"(calc|calculate|compute|get|estimate|evaluate|eval) (\w+ )*loss(es)?",
    SETTINGS: r"configs?|configuration|cfg|conf|args|arguments|hyper ?parameters|hparams|(?<!num )params|settings|"
    "options",
    OF_TEXTS: r"(de)?tokeniz(er|ers|e|ation)|vocab|vocabulary|bpe|merges?|encode|decode|text|sentences?(?! bleu)",
    DATA: r"data|data ?(sets?|module|loaders?)|batch(es)?|loaders?|collat(e|or)|corpus(?! bleu)|sampler|iterator",
    TRAINS: r"(train|training)(?! metrics)|trainer|fit|learner",
    BEGINS: r"init\w*( \w+)* (weights?|params?|parameters|layers?|modules?)|weights? init|xavier|kaiming",
    KEEPS: r"save|checkpoints?|load",
    SEEDS: r"seed|seeds",
    MEASURES: r"count|eval|(evalu|valid)at(e|ion)|estimate|accuracy|metrics?|bleu|perplexity|meter|benchmark|profile|"
    "num (params|parameters)",
    SHOWS: r"plot|draw|show|visuali[sz]e|display|print|log(?! (back|forward|p|prob\w*|likelihoods?|softmax|sum)\b)|"
    "logger|timer|callback|tracker|monitor",
    RUNS: r"main|cli|run|demo|example",
}
"""What the name of such a thing has, as whole words."""
OF_BASES = {
    "Enum": SETTINGS, "Exception": AN_ERROR, "Dataset": DATA, "IterableDataset": DATA, "Sampler": DATA,
    "LightningDataModule": DATA, "NamedTuple": SETTINGS, "TypedDict": SETTINGS, "Protocol": A_BASE,
}  # fmt: skip


def sort_of(name: str, thing: Any, components: Iterable[Any] = ()) -> str:
    """What something is that is judged as none of the kinds. components: of its files, which may be made of it."""
    if said := _of_class(thing) if isinstance(thing, type) else _of_function(thing):
        return said
    absent = unmade(thing)
    if absent.endswith(NOWHERE):
        return absent
    if not is_module_class(thing):
        of_models = [MEASURES, *(said for said in BY_WORDS if said != DATA)]  # text_eval(model, batches)
        if named := _named(name, of_models if _is_given_a_model(thing) else BY_WORDS):
            return ON_A_MODEL if named == OF_TEXTS and _is_given_a_model(thing) else named
        whole = _whole_of(thing, components) if inspect.isfunction(thing) else None
        if whole is not None:
            return A_PART.format(whole.__name__)
    if why := absent or foreign.why_not(thing):
        return why
    if not isinstance(thing, type):
        return UNKNOWN
    if issubclass(thing, nn.Module):
        return _takes(thing)
    is_called = any("__call__" in vars(base) for base in thing.__mro__)
    return NO_MODULE_CALLED if is_called else NO_MODULE


def _is_given_a_model(thing: Any) -> bool:
    """Whether a function takes a model: generate_batch(model, prompts) fetches no data."""
    return inspect.isfunction(thing) and any(input_of(p.name, ("next_logits",)) for p in parameters_of(thing))


def _named(name: str, sorts: Iterable[str] = BY_WORDS) -> str:
    """The first of some sorts of which a name has a word; "" for none."""
    called = " ".join(words(name))
    return next((said for said in sorts if re.search(rf"\b({BY_WORDS[said]})\b", called)), "")


def judged_within(name: str, thing: Any, found: Iterable[str]) -> str:
    """That methods of a class are judged by themselves, if they are. found: the names of all components."""
    methods = dict.fromkeys(one.split(".")[1] for one in found if one.startswith(f"{name}."))
    are = "is" if len(methods) == 1 else "are"
    return JUDGED_WITHIN.format(holder(thing), " and its ".join(methods), are) if methods else ""


def without_its_model(thing: Any, kind: str) -> str:
    """That what writes text is given no model, and reads a global that is not there; "" of anything else."""
    is_one = kind in foreign.WRITING and inspect.isfunction(thing) and not _is_given_a_model(thing)
    return unmade(thing) if is_one else ""


def holder(thing: Any) -> str:
    """What a class is that is no component, whatever its methods are."""
    return _takes(thing) if is_module_class(thing) else NO_MODULE_CALLED


def _takes(module: Any) -> str:
    """That no known part does with what it takes what the forward of a class does."""
    taken = [p.name for p in parameters_of(module.forward) if p.name != "self"]
    return UNKNOWN_MODULE.format(", ".join(taken)) if taken else HANDS_ON


def methods_of(name: str, cls: Any, told: Iterable[str]) -> dict[str, str]:
    """The methods of a class that look like components by themselves, and why they are none. told: of others."""
    named = {*told}
    known = {x for x in named if "." not in x} | {x.split(".")[1] for x in named if x.startswith(f"{name}.")}
    is_own = isinstance(cls, type) and cls.__module__ not in ("torch", "builtins") and not foreign.tests(cls)
    members = vars(cls).items() if is_own else ()
    found = {}
    for method, member in members:
        function = inspect.unwrap(getattr(member, "__func__", member))
        is_open = inspect.isfunction(function) and method not in known
        if is_open and (why := _of_method(method, function, cls, is_judged=name in named)):
            found[f"{name}.{method}"] = why
    return found


def _of_method(name: str, function: Any, cls: Any, is_judged: bool = True) -> str:
    """is_judged: its class is a component."""
    called = " ".join(words(name))
    if BACKWARD.match(name) and as_module(cls) is not cls:
        return ""  # its gradients are compared
    if name == "zero_grad" or (is_judged and letters.numbers(cls)):
        return ""  # what a schedule around an optimizer hands on; what a tokenizer learns letters with
    if re.search(rf"\b({STEPS_OF_TRAINING})\b", called) or _of_function(function):
        return TRAINS
    if name == "configure_optimizers":
        return "it makes an optimizer" + " of all weights" * (not grouping.GROUPS.search(source_of(function)))
    if re.search(r"\b(load|from) (from )?(checkpoint|pretrained|state|weights)|\bsave\b", called):
        return KEEPS
    if isinstance(vars(cls)[name], staticmethod):
        users = [one for other, one in vars(cls).items() if other != name and callable(one) and name in names_in(one)]
        if not is_judged and (said := _named(name, (MEASURES, SHOWS))):
            return said
        return (A_PART if is_judged else A_PIECE).format(cls.__name__) if users else UNKNOWN
    is_one = methods.WRITES.search(plain(name)) and issubclass(cls, nn.Module)
    if not is_one or name in _used_by(cls):
        return ""  # what generate_table makes is judged in the forward
    why = foreign.why_not(function)
    return unmade(function) or (why if why in (foreign.NOT_WRITTEN, foreign.RETURNS_NOTHING) else WRITES_OTHERWISE)


def _used_by(cls: Any) -> set[str]:
    """The names of methods that the constructor and the forward of a class use, and those the others."""
    found, edge = set[str](), {"__init__", "forward"} & vars(cls).keys()
    while edge:
        found |= edge
        edge = {name for one in edge for name in names_in(vars(cls)[one]) & vars(cls).keys()} - found
    return found


def _whole_of(thing: Any, components: Iterable[Any]) -> Any:
    """The first of some components whose code leads to it, and is run."""
    wholes = (one for one in components if one is not thing and thing in leads_to(one))
    return next((one for one in wholes if not _only_trains_with(one, thing)), None)


def _only_trains_with(whole: Any, function: Any) -> bool:
    """Whether all methods of a class that name a function train, which are read and not run."""
    members = vars(whole).items() if isinstance(whole, type) else ()
    own = [(name, inspect.unwrap(getattr(member, "__func__", member))) for name, member in members]
    users = [one for one in own if inspect.isfunction(one[1]) and function.__name__ in names_in(one[1])]
    return bool(users) and all(_of_method(name, method, whole) == TRAINS for name, method in users)


def _of_class(cls: Any) -> str:
    """By what it inherits from, and by what it has."""
    if foreign.tests(cls):
        return foreign.A_TEST
    bases = [base.__name__ for base in cls.__mro__[1:]]
    known = next((OF_BASES[name] for name in bases if name in OF_BASES), "")
    if known or issubclass(cls, enum.Enum) or hasattr(cls, "__dataclass_fields__"):
        return known or SETTINGS
    if inspect.isabstract(cls):
        return A_BASE
    if issubclass(cls, torch.autograd.Function):
        return "an autograd.Function"
    if issubclass(cls, torch.optim.Optimizer):
        return OTHER_OPTIMIZER
    if {"__add__", "__mul__"} & vars(cls).keys() and "backward" in vars(cls):
        return "a tensor class of its own"
    if only_trains(cls):
        return TRAINS
    if schedules.is_schedule(cls) and {"lr", "param_groups", "base_lrs"} & names_in(cls):
        return OTHER_RATES
    own = {name for name in vars(cls) if not name.startswith("__")}
    if not issubclass(cls, nn.Module) and own and not any(map(callable, map(vars(cls).get, own))):
        return SETTINGS
    return TRAINS if not issubclass(cls, nn.Module) and "backward" in names_in(cls) - own else ""


def _of_function(function: Any) -> str:
    if hasattr(function, "owner") and schedules.is_maker(function):
        return NO_RATES
    return TRAINS if trains(function) else LAUNCHES * launches(function)


def trains(thing: Any) -> bool:
    """Whether a function, or a class, takes gradients."""
    return bool({"backward", "zero_grad"} & names_in(thing))


def only_trains(thing: Any) -> bool:
    """Whether it is a class that takes gradients, and computes nothing that has any: TransformerRunner."""
    is_plain = isinstance(thing, type) and not issubclass(thing, (nn.Module, torch.optim.Optimizer))
    computes = any("__call__" in vars(one) or "forward" in vars(one) for one in thing.__mro__) if is_plain else True
    return not computes and trains(thing) and not {"backward", "step", "zero_grad"} & {*dir(thing)}


def launches(function: Any) -> bool:
    """Whether a function launches a kernel of Triton's, kernel[grid](…)."""
    calls = nodes_of(function, ast.Call) if inspect.isfunction(function) and "triton" in function.__globals__ else []
    return any(isinstance(one.func, ast.Subscript) and isinstance(one.func.value, ast.Name) for one in calls)


def unmade(thing: Any) -> str:
    """That a function, or a method of a class, reads a global that is not there, and why that is so; "" if none."""
    module = sys.modules.get(getattr(thing, "__module__", None) or "")
    members = vars(thing).values() if isinstance(thing, type) else [thing]
    steps = [step for one in members for code in codes_of(one) for step in dis.get_instructions(code)]
    read = dict.fromkeys(str(step.argval) for step in steps if step.opname == "LOAD_GLOBAL")
    absent = [name for name in read if module is not None and name not in {*vars(module), *vars(builtins)}]
    places = {name: _place_of(name, getattr(module, "__file__", None) or "") for name in absent}
    for place in (NOWHERE, IN_MAIN, NOT_RUN):
        if names := [name for name, other in places.items() if other == place]:
            return NOT_MADE.format(" and ".join(names), place)
    return ""


def not_run(error: BaseException | None) -> str:
    """That a global is read which its file makes, in lines that were not run; "" of what stops for another reason."""
    frames = frames_of(error) if type(error) is NameError else []
    place = _place_of(str(error.name), frames[-1].f_code.co_filename) if frames else ""  # type: ignore[union-attr]
    return NOT_MADE.format(error.name, place) if place in (IN_MAIN, NOT_RUN) else ""  # type: ignore[union-attr]


def _place_of(name: str, path: str) -> str:
    """Where a file gives a name a value, in words; "" where that is not known."""
    nodes = parsed(path)
    blocks = [node for node in nodes if isinstance(node, ast.If) and is_main_guard(node)]
    if name in _stored(node for block in blocks for node in ast.walk(block)):
        return IN_MAIN
    top = [one for one in getattr(nodes[0], "body", []) if one not in blocks] if nodes else []
    if name in _stored(node for one in top if not isinstance(one, SCOPES) for node in ast.walk(one)):
        return NOT_RUN
    is_open = any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in nodes)
    is_set = any(isinstance(node, ast.Global) and name in node.names for node in nodes)
    return "" if is_open or is_set or not nodes or name in _defined(nodes) else NOWHERE


def _stored(nodes: Iterable[ast.AST]) -> set[str]:
    return {node.id for node in nodes if is_stored(node)}


def _defined(nodes: Iterable[ast.AST]) -> set[str]:
    """What is imported, and what is written as a class or function, of which something has kept Python."""
    found = {node.name for node in nodes if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    names = [one for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom)) for one in node.names]
    return found | {(one.asname or one.name).partition(".")[0] for one in names}


OF_THE_KITS_MODEL = re.compile(r"'ModuleDict' object has no attribute '(\w+)'")
MOST_SAID = 90
"""Letters of what something stops with."""


def _named_at_last(name: str) -> str:
    """What a function is by its name which reminds of a kind, and is not understood as one: vae_loss, load_model."""
    called = " ".join(words(name))
    if called.endswith(" loss"):
        return A_LOSS
    if KEPT.match(called):
        return KEEPS
    return _named(name, (A_LOSS, BEGINS, SETTINGS, MEASURES, SHOWS))


KEPT = re.compile(r"(load|save) (\w+ )*(model|weights|checkpoint|state|pretrained)\b")


def left_of(thing: Any, kind: str, verdict: str, problem: str, components: Iterable[Any]) -> str:
    """Why something is not told of that reminds of a kind: what it is, or what happened when it was tried as one."""
    whole = _whole_of(thing, components) if inspect.isfunction(thing) else None
    if why := unmade(thing) or _of_function(thing) or (A_PART.format(whole.__name__) if whole is not None else ""):
        return why
    if inspect.isfunction(thing) and (named := _named_at_last(thing.__name__)):
        return named
    if tokenizing.encodes(getattr(thing, "owner", thing)):
        return OF_TEXTS
    if _is_given_a_model(thing) and kind not in foreign.WRITING:
        return ON_A_MODEL
    if verdict == "unknown mismatch":
        return f"it computes something else than what is called {kind} here"
    if kind == "DecayGroups" and (asked := OF_THE_KITS_MODEL.search(problem)):
        return f"it asks its model for .{asked[1]}, which the small model that {kind} is tried with has not"
    said = problem.partition(" (")[0].strip().rstrip(".")
    said = said if len(said) <= MOST_SAID else f"{said[:MOST_SAID].rstrip()}…"
    return f"tried as {kind}: {said}" if said else f"it is no {kind}"
