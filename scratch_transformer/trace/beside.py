"""The same model in torch.nn: built from torch's own classes, with the weights of ours."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import Module, ModuleList

from scratch_transformer import attention, model, nn
from scratch_transformer.conformance import counterparts
from scratch_transformer.trace import tutorials
from scratch_transformer.trace.tutorials import Adapt, Arguments

OURS = tuple(each for each in vars(nn).values() if isinstance(each, type) and each.__module__.startswith(nn.__name__))
LAYERS = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
STACKS = (nn.TransformerEncoder, nn.TransformerDecoder)


def torch_name(name: str, traced: Any) -> str:
    """The name on torch's side of a tensor that has `name` on ours."""
    return tutorials.torch_name(name, traced) if type(traced).__module__ == model.__name__ else name


def torch_beside(traced: Any) -> tuple[Callable[..., Any], Adapt] | None:
    """torch's counterpart of a module or function of this package, in evaluation mode, and what makes its arguments.

    A module of somebody else's is copied, with torch's modules in the place of ours. None: torch has no such thing, or
    it is made of parts of `model.py`, which torch's cannot replace.
    """
    if traced is attention.scaled_dot_product_attention:
        return torch.nn.functional.scaled_dot_product_attention, as_they_are
    if not isinstance(traced, Module):
        return None
    if type(traced).__module__ == model.__name__:
        found = tutorials.counterpart(traced)
        return None if found is None else (found[0].eval(), found[1])
    if any(type(module).__module__ == model.__name__ for module in traced.modules()):
        return None
    return _built(traced).eval(), as_they_are


def as_they_are(*args: Any, **kwargs: Any) -> Arguments:
    """Arguments that torch takes too."""
    return args, kwargs


def _built(ours: Module) -> Module:
    if type(ours) not in OURS:
        return _copied(ours)
    if not hasattr(torch.nn, type(ours).__name__):
        return _counterpart(ours)
    built = _constructed(ours)
    like = next((tensor for tensor in ours.state_dict().values() if tensor.is_floating_point()), None)
    if like is not None:
        built.to(like)
    built.load_state_dict(ours.state_dict())
    return built


def _constructed(ours: Module) -> Module:
    """An instance of torch's class of the same name, with the same arguments."""
    builtin = getattr(torch.nn, type(ours).__name__)
    if isinstance(ours, nn.Transformer):
        stacks = {"custom_encoder": _built(ours.encoder), "custom_decoder": _built(ours.decoder)}
        return builtin(ours.d_model, ours.nhead, batch_first=ours.batch_first, **stacks)
    if isinstance(ours, STACKS):
        layers = [_built(layer) for layer in ours.layers.children()]
        nested = {"enable_nested_tensor": False} if isinstance(ours, nn.TransformerEncoder) else {}
        stack = builtin(layers[0], len(layers), None if ours.norm is None else _built(ours.norm), **nested)
        stack.layers = ModuleList(layers)
        return stack
    if isinstance(ours, LAYERS):
        layer = builtin(**_arguments_of_layer(ours))
        for name, child in ours.named_children():  # one may have been replaced, or given another ε
            setattr(layer, name, _built(child))
        return layer
    names = [name for name in inspect.signature(builtin).parameters if hasattr(ours, name)]
    arguments = {name: getattr(ours, name) for name in names}
    if isinstance(ours, nn.MultiheadAttention):
        has = {"bias": ours.in_proj_bias, "add_bias_kv": ours.bias_k}
        arguments |= {name: tensor is not None for name, tensor in has.items()}
    elif "bias" in arguments:
        arguments["bias"] = ours.bias is not None
    return builtin(**arguments)


def _counterpart(ours: Module) -> Module:
    """What is put together from torch's parts where it has no module: the same attributes, torch's modules in them."""
    made = _copied(ours)
    made.__class__ = getattr(counterparts, type(ours).__name__)
    return made


def _arguments_of_layer(layer: Any) -> dict[str, Any]:
    attends = layer.self_attn
    return {
        "d_model": attends.embed_dim, "nhead": attends.num_heads, "dim_feedforward": layer.linear1.out_features,
        "activation": _activation(layer.activation), "layer_norm_eps": layer.norm1.eps, "norm_first": layer.norm_first,
        "batch_first": attends.batch_first, "bias": layer.linear1.bias is not None,
    }  # fmt: skip


def _activation(ours: Any) -> Any:
    name = getattr(ours, "__name__", "")
    is_ours = getattr(ours, "__module__", "") == "scratch_transformer.functional"
    if isinstance(ours, Module):
        return _built(ours)
    return getattr(torch.nn.functional, name) if is_ours else ours


def _copied(theirs: Module) -> Module:
    copied = copy.deepcopy(theirs)
    for name, child in theirs.named_children():
        setattr(copied, name, _built(child))
    return copied
