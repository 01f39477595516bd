"""What is no ordinary module: factories, models without forward, plain classes with tensors, functions of numbers."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from scratch_transformer.kit.definitions import is_module_class, is_of_torch, meant_by, nodes_of
from scratch_transformer.kit.kind import Kind
from scratch_transformer.kit.resolve.build.config import is_config
from scratch_transformer.kit.resolve.build.construct import parameters_of
from scratch_transformer.kit.resolve.call import held as held_sublayers
from scratch_transformer.kit.resolve.call import nameless, stateful, together
from scratch_transformer.kit.resolve.names.inputs import CROSS_MASK, SOURCE_MASK, TARGET_MASK, input_of
from scratch_transformer.kit.resolve.names.settings import is_setting
from scratch_transformer.kit.resolve.names.words import plain

MODELS = ("Transformer", "DecoderOnly", "TokenEncoder", "TokenDecoder", "LlamaModel")
TARGET = re.compile(r"tgt|trg|tar|y|dec|ids|out")
HEADS = (
    "generator",
    "projection_layer",
    "projection",
    "proj",
    "fc_out",
    "lm_head",
    "head",
    "out",
    "project",
    "linear",
    "fc",
)
GIVE_ITSELF = {"to", "cuda", "cpu", "eval", "train", "float", "double", "half", "bfloat16", "requires_grad_"}
"""Methods of a module that give the module itself."""


def is_factory(thing: Any, kind: Kind) -> bool:
    """A function that makes a model: make_model(src_vocab, tgt_vocab, N=6, d_model=512); one that makes a part."""
    if not inspect.isfunction(thing) or kind.name not in MODELS:
        return inspect.isfunction(thing) and _returns_module(thing)
    found = parameters_of(thing)
    if len(found) == 1 and is_config(found[0]):
        return re.match(r"(build|make|create|get|init)_?\w*(model|transformer|gpt|llama)", thing.__name__) is not None
    names = [p.name for p in found]
    if "ids" in kind.inputs and any(input_of(name, ("ids",)) and not is_setting(name) for name in names):
        return False  # it is the model itself: run_transformer_lm(vocab_size, …, weights, in_indices)
    return bool(names) and sum(map(is_setting, names)) > len(names) / 2


def _returns_module(function: Callable[..., Any]) -> bool:
    """Whether all that it returns is made of a class of modules: return nn.Sequential(nn.Linear(d_model, d_ff), …)."""
    returned = [node.value for node in nodes_of(function, ast.Return)]
    calls = [ast.unparse(value.func) for value in returned if isinstance(value, ast.Call)]
    made = [meant_by(path, function.__globals__) for path in calls]
    return 0 < len(returned) == sum(is_module_class(one) for one in made)


def made_by(function: Callable[..., Any]) -> type | None:
    """The class of a learner's modules that all that a function returns is one of, built there; None without one."""
    nodes = list(nodes_of(function))
    given = {ast.unparse(one): node.value for node in nodes if isinstance(node, ast.Assign) for one in node.targets}
    returned = [_unmoved(node.value) for node in nodes if isinstance(node, ast.Return) and node.value is not None]
    values = [_unmoved(given.get(ast.unparse(value), value)) for value in returned]
    made = {function.__globals__.get(ast.unparse(v.func)) if isinstance(v, ast.Call) else None for v in values}
    cls = made.pop() if len(made) == 1 else None
    return cls if is_module_class(cls) and not is_of_torch(cls) else None


def _unmoved(value: ast.expr) -> ast.expr:
    """Of a model that is moved, or switched, at once, Model(…).to(device).eval(): the model; else as it is."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in GIVE_ITSELF:
        value = value.func.value
    return value


def makers(cls: Any, kind: Kind) -> list[Callable[..., Any]]:
    """A model's own methods that make one of its class: Transformer.from_hyperparams(src_vocab, tgt_vocab)."""
    own = vars(cls).values() if isinstance(cls, type) else ()
    bound = [value.__get__(None, cls) for value in own if isinstance(value, (classmethod, staticmethod))]
    found = [_making(method, cls) for method in bound if not method.__name__.startswith("_")]
    return [function for function in found if is_factory(function, kind)]


def _making(method: Callable[..., Any], cls: type) -> Callable[..., Any]:
    """A method as a function that makes an instance of its class, or raises TypeError."""

    @functools.wraps(method)
    def make(*args: Any, **given: Any) -> Any:
        made = method(*args, **given)
        if not isinstance(made, cls):
            raise TypeError(f"it makes no {cls.__name__}")
        return made

    make.__signature__ = inspect.signature(method)  # type: ignore[attr-defined]
    return make


def forward_of(made: Any, kind: Kind) -> Callable[..., Any]:
    """What to call: forward, __call__, or for a model without forward its encode, decode and project joined."""
    if not isinstance(made, nn.Module):
        attends = inspect.isfunction(made) and kind.name.endswith("Attention")
        return (nameless.with_named_masks(made) if attends else None) or made
    if kind.name == "ResidualConnection" and (of_held := held_sublayers.of_held(made)) is not None:
        return of_held
    forward = getattr(type(made), "forward", nn.Module.forward)
    is_written = "NotImplementedError" not in getattr(getattr(forward, "__code__", None), "co_names", ())
    has_own = forward is not nn.Module.forward and is_written
    if kind.name == "Transformer" and not has_own and hasattr(made, "encode") and hasattr(made, "decode"):
        return _joined(made)
    return stateful.of_state(made, kind) or told_otherwise(made) or made.forward


def told_otherwise(made: nn.Module) -> Callable[..., Any] | None:
    """A forward that is given one by one what is taken apart in it, or masks by the names of its parts'; else None."""
    return together.of_parts(made) or nameless.with_named_masks(made)


def _joined(made: Any) -> Callable[..., Any]:
    """src, tgt, src_mask, tgt_mask -> what encode, decode and project give."""
    order = [plain(p.name) for p in parameters_of(made.decode)]
    sides = [name for name in order if "mask" not in name]
    targets = {name for name in sides if TARGET.match(name) and "enc" not in name}
    is_told_apart = any(input_of(name, ("memory",)) for name in set(sides) - targets)
    sources = {name for name in sides if is_told_apart and input_of(name, ("src",))} - targets  # for their padding
    for others in (("memory", "src"), ("memory",)):  # decode(x, memory): x is what the encoder is given, too
        targets = targets or {name for name in sides if not input_of(name, others) and "enc" not in name}

    def forward(src: Tensor, tgt: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None) -> Any:
        memory = made.encode(src, src_mask) if len(parameters_of(made.encode)) > 1 else made.encode(src)
        given: list[Any] = []
        for name in order:
            if "mask" in name:
                given.append(src_mask if _is_of_source(name) else tgt_mask)
            else:
                given.append(tgt if name in targets else src if name in sources else memory)
        return made.decode(*given)

    return forward


def _is_of_source(mask: str) -> bool:
    """Whether a name of a mask says that it hides the source's padding."""
    is_own = TARGET_MASK.search(mask) and not mask.startswith(("src", "enc", "mem"))
    return bool(CROSS_MASK.search(mask)) or (not is_own and bool(SOURCE_MASK.search(mask)))


def head_of(made: Any, d_model: int, vocabulary: int) -> Callable[[Tensor], Tensor] | None:
    """The part of a model that gives the logits, where its forward leaves that to the caller."""
    for name in HEADS:
        part = getattr(made, name, None)
        if callable(part):
            try:
                shape = part(torch.zeros(1, 2, d_model)).shape
            except Exception:  # not that part
                continue
            if shape[-1] == vocabulary:
                return part
    return None


class Holder(nn.Module):
    """A plain class with tensors (self.gamma = torch.ones(d)) as a module, its tensors as parameters."""

    def __init__(self, made: Any) -> None:
        super().__init__()
        self.__dict__["made"] = made
        for name, value in list(vars(made).items()):
            if isinstance(value, Tensor) and value.is_floating_point() and not name.startswith("_"):
                parameter = nn.Parameter(value.detach().double())
                self.register_parameter(name, parameter)
                setattr(made, name, parameter)

    def forward(self, *args: Any, **options: Any) -> Any:
        return self.__dict__["made"](*args, **options)


def held(made: Any) -> Any:
    """A plain instance that has tensors and can be called, as a module; everything else as it is."""
    if isinstance(made, nn.Module) or inspect.isfunction(made) or isinstance(made, type):
        return made
    call = made.__call__ if callable(made) else getattr(made, "forward", None)
    if call is not None and any(isinstance(value, Tensor) for value in vars(made).values()):
        holder = Holder(made)
        holder.forward = call  # type: ignore[method-assign]
        return holder
    return made if call is None else call
