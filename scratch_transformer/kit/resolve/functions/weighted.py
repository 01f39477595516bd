"""Functions whose weights are arguments, as modules: layer_norm(x, gamma, beta), feed_forward(x, w1, b1, w2, b2).

A required parameter that is no input and no setting holds weights: a tensor, or a dictionary, tuple or list of them
(usage.py). The module has them as parameters, named so that the search for weights finds its way.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from scratch_transformer.kit.kind import Kind
from scratch_transformer.kit.kinds import KINDS
from scratch_transformer.kit.recipe import RIGHT
from scratch_transformer.kit.resolve.build.config import is_config
from scratch_transformer.kit.resolve.build.construct import parameters_of
from scratch_transformer.kit.resolve.build.values import GENERAL
from scratch_transformer.kit.resolve.call.beside import POSITIONS, TABLE
from scratch_transformer.kit.resolve.call.calling import CONSTANTS
from scratch_transformer.kit.resolve.call.plan import MASKS
from scratch_transformer.kit.resolve.functions import documented, weight_names, weight_shapes
from scratch_transformer.kit.resolve.functions.usage import Structure, structure_of
from scratch_transformer.kit.resolve.names.inputs import input_of, is_mask
from scratch_transformer.kit.resolve.names.settings import settings_of
from scratch_transformer.kit.resolve.names.words import plain

OPTIONAL = ("dropout", "d_k", "eps", "max_len", "num_heads")
"""Settings that functions have whatever their kind."""
OF_MODULES = frozenset(dir(nn.Module()))
"""What every module has already, its flag of training among it: no weight can be called so."""


class Weighted(nn.Module):
    """A function with weights as a module. kind_name: what it is thought to be. function: the learner's."""

    kind_name = ""

    def __init__(self, function: Callable[..., Any], structures: Mapping[str, Structure], count: int) -> None:
        super().__init__()
        self.__dict__["function"] = function
        self._structures, self._count = dict(structures), count
        self.places: dict[str, str] = {}
        """Leaf -> the parameter of this module that it is."""

        def forward(**given: Any) -> Any:
            return function(**given, **self._weights())

        signature = inspect.signature(function)
        kept = [p.replace(kind=p.KEYWORD_ONLY) for p in parameters_of(function) if p.name not in structures]
        forward.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        forward.__wrapped__ = function  # type: ignore[attr-defined]  # whose text tells what it does
        self.forward = forward

    def put(self, leaf: str, path: str, shape: tuple[int, ...]) -> None:
        """A parameter of this shape at a path of this module."""
        *parents, name = [f"{part}_" if part in OF_MODULES else part for part in path.split(".")]
        module: nn.Module = self
        for parent in parents:
            if parent not in module._modules:
                module.add_module(parent, nn.Module())
            module = module.get_submodule(parent)
        module.register_parameter(name, nn.Parameter(torch.randn(shape, dtype=torch.float64)))
        self.places[leaf] = ".".join([*parents, name])

    def _weights(self) -> dict[str, Any]:
        """The arguments that hold them."""
        leaves = {leaf: self.get_parameter(path).data for leaf, path in self.places.items()}
        return {name: part.made(leaves, self._count, name) for name, part in self._structures.items()}


def weighted(function: Callable[..., Any], kind: Kind, settings: Mapping[str, Any]) -> list[Weighted]:
    """The function with weights of every shape that they may have, the likeliest first; [] if it takes none."""
    names = weights_of(function, kind)
    if not names:
        return []
    canonical = {n: tuple(v.shape) for n, v in kind.build(settings, RIGHT.with_(kind.full)).state_dict().items()}
    is_attention = kind.name.endswith("Attention")
    count = int(settings.get("num_heads" if is_attention else "num_layers", GENERAL["num_layers"]))
    structures = {name: _structure(function, name, count) for name in names}
    leaves = [leaf for name, part in structures.items() for leaf in part.leaves(count, name)]
    units = weight_names.units(leaves, kind.name.endswith("Norm"))
    found = []
    for shapes in weight_shapes.shapes(units, kind.name, canonical, settings):
        cls = type(function.__name__, (Weighted,), {"kind_name": kind.name})
        made = cls(function, structures, count)
        for leaf, (path, shape) in shapes.items():
            made.put(leaf, path, shape)
        found.append(made)
    return found


def _structure(function: Callable[..., Any], parameter: str, count: int) -> Structure:
    """What its code makes of a parameter; what its docstring says, where the code tells less: weights[f"{i}.w1"]."""
    found = structure_of(function, parameter)
    named = documented.names(function, count) if parameter.lower() in weight_names.HOLDERS else []
    is_all = found.kind in ("leaf", "dict") and found.parts.keys() <= {*named}
    return Structure("dict", {name: Structure() for name in named}) if named and is_all else found


@functools.cache
def _has_weights(name: str) -> tuple[bool, bool]:
    """Whether a kind has weights, and norms among them."""
    kind = KINDS[name]
    state = kind.build(kind.defaults, RIGHT.with_(kind.full)).state_dict()
    return bool(state), any(values.dim() == 1 and not name.endswith("bias") for name, values in state.items())


def weights_of(function: Callable[..., Any], kind: Kind) -> list[str]:
    """The parameters that hold weights: required, and neither an input nor a setting nor a mask."""
    has_weights, has_norms = _has_weights(kind.name)
    if not has_weights:
        return []
    left = [name for name in kind.inputs if name not in MASKS]
    certain, perhaps = [], []
    for parameter in parameters_of(function):
        name, is_open = parameter.name, parameter.default is parameter.empty
        meant = None if weight_names.is_bare(name) else input_of(name, tuple(left))
        if meant is not None:
            left.remove(meant)
        if meant is not None or is_mask(name) or plain(name) in CONSTANTS:
            continue
        is_named = (is_open or parameter.default is None) and weight_names.looks_like_weight(name, has_norms)
        is_holder = is_open and _holds_weights(structure_of(function, name), is_config(parameter))
        if is_holder or (is_named and not is_config(parameter)):
            certain.append(name)
        elif (
            is_open
            and not is_config(parameter)
            and not (kind.name.endswith(("Attention", "Block")) and _is_of_positions(name))
            and not any(s in kind.defaults or s in OPTIONAL for s in settings_of(name))
        ):
            perhaps.append(name)
    perhaps = perhaps[len(left) :]  # inputs of unknown names come first
    order = [parameter.name for parameter in parameters_of(function)]
    return sorted([*certain, *perhaps], key=order.index)


def _is_of_positions(name: str) -> bool:
    """Whether it takes positions, or what turns by them: multihead_attention(…, rope, token_positions)."""
    return bool(POSITIONS.match(plain(name)) or TABLE.search(plain(name)))


def _holds_weights(structure: Structure, may_be_config: bool) -> bool:
    """A dictionary, tuple, list or object; one that may be of hyperparameters only if a name in it says weights."""
    if structure.kind == "leaf" or not may_be_config:
        return structure.kind != "leaf"
    names = [leaf.rpartition(".")[2] for leaf in structure.leaves(1)]
    return any(weight_names.looks_like_weight(name) for name in names)
