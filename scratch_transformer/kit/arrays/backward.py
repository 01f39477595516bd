"""A backward pass that is written by hand, as PyTorch's: called when gradients of the output are asked for.

It is called on a copy, after a forward with the same inputs: neither what it keeps nor what it changes is left behind.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from scratch_transformer.kit.arrays.places import boxed
from scratch_transformer.kit.arrays.turning import run, to_arrays, to_tensors

if TYPE_CHECKING:
    from scratch_transformer.kit.arrays.module import OfArrays

GRADIENT = re.compile(r"grad|err|delta|upstream|loss|^d(_?l)?_?[a-z]*", re.IGNORECASE)
KEPT = re.compile(r"cache|ctx|context|saved|memo", re.IGNORECASE)
RATE = re.compile(r"^(lr|learning_?rate|step_?size|eta)$", re.IGNORECASE)
TRAINS = re.compile(r"^(is_?)?train(ing)?(_?(mode|flag))?$", re.IGNORECASE)


class CannotGoBack(Exception):
    """Nobody knows what a method that goes back is to be given."""


@dataclass
class Pass:
    """What a backward pass left behind. module: the copy that it was called on. returned: by it.

    error: what it stopped with. rate: the rate of learning that it was given; 0.0 if it took none.
    """

    module: OfArrays
    returned: Any = None
    error: Exception | None = None
    rate: float = 0.0


@dataclass
class _Call:
    """A call of a method of a module with tensors."""

    module: OfArrays
    name: str
    given: tuple[Any, ...]
    named: dict[str, Any]

    @property
    def leaves(self) -> list[Tensor]:
        """The tensors whose gradients the pass is to give, in order."""
        values = (*self.given, *self.named.values())
        return [v for v in values if isinstance(v, Tensor) and v.requires_grad]

    def forward(self, module: OfArrays, **flags: Any) -> Any:
        module.write()
        return run(getattr(module.made, self.name), to_arrays(self.given), to_arrays({**self.named, **flags}))

    def back(self, index: int, gradient: Tensor) -> Pass:
        """The pass for the output of this number among all, by the first way that does not stop."""
        first: Pass | None = None
        for flags in self._flags():
            one = Pass(copy.deepcopy(self.module))
            try:
                returned = self.forward(one.module, **flags)
                method = getattr(one.module.made, self.module.backward_name)
                args, one.rate = self._arguments(method, returned, gradient.detach().numpy().copy())
                one.returned = run(method, (), args)
                return one
            except Exception as error:  # the learner's code may raise anything
                one.error = error
                first = first or one
        assert first is not None
        return first

    def _flags(self) -> Iterator[dict[str, bool]]:
        """As it was called; then as in training, where only that keeps what the pass needs."""
        yield {}
        flags = training_flags(getattr(self.module.made, self.name))
        if flags and not self.given:
            yield flags

    def _arguments(self, method: Any, returned: Any, gradient: np.ndarray) -> tuple[dict[str, Any], float]:
        """What the method takes, by name, and the rate of learning among that."""
        parameters = inspect.signature(method).parameters.values()
        forward = inspect.signature(getattr(self.module.made, self.name))
        inputs = forward.bind(*to_arrays(self.given), **to_arrays(self.named)).arguments
        needed = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        found: dict[str, Any] = {p.name: 1.0 for p in needed if RATE.match(p.name)}
        rate = 1.0 if found else 0.0
        left_open = [p for p in needed if p.name not in found]
        open_ones = [p for p in left_open if p.default is p.empty] or left_open[:1]
        for parameter in open_ones:
            if KEPT.search(parameter.name) and isinstance(returned, tuple):
                found[parameter.name] = returned[1] if len(returned) == 2 else returned[1:]
            elif parameter.name in inputs and len(open_ones) > 1:
                found[parameter.name] = inputs[parameter.name]
        left = [p.name for p in open_ones if p.name not in found]
        if len(left) > 1:
            left = [name for name in left if GRADIENT.search(name)] or left
        if len(left) != 1 or {*left, *found} != {*found, *(p.name for p in open_ones)}:
            raise CannotGoBack(f"it takes {', '.join(p.name for p in open_ones) or 'nothing'}")
        return {**found, left[0]: gradient}, rate


def training_flags(method: Any) -> dict[str, bool]:
    """The arguments by which a method is told that it trains."""
    return {name: True for name in inspect.signature(method).parameters if TRAINS.match(name)}


def differentiable(module: OfArrays, name: str, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """What a method returns for tensors, with the gradients that the module's own backward pass gives."""
    call = _Call(module, name, given, named)
    values, form = tree_flatten(to_tensors(call.forward(module)))
    places = [place for place, value in enumerate(values) if isinstance(value, Tensor)]
    anchor = torch.zeros((), requires_grad=True)  # of what is given ids alone
    outputs = _ByHand.apply(call, [values[place].clone() for place in places], anchor, *call.leaves)
    for place, output in zip(places, outputs, strict=True):
        values[place] = output
    return tree_unflatten(values, form)


class _ByHand(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, call: _Call, outputs: Sequence[Tensor], *leaves: Tensor) -> tuple[Tensor, ...]:
        ctx.call = call
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(one for one in outputs if not one.is_floating_point()))
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        call: _Call = ctx.call
        leaves = call.leaves
        asked = [(index, one) for index, one in enumerate(gradients) if one is not None]
        if not asked:
            return (None, None, None, *(None for _ in leaves))
        one = call.back(*asked[0])
        call.module.heard(one)
        return (None, None, None, *_for(leaves, one.returned))


def _for(leaves: Sequence[Tensor], returned: Any) -> list[Tensor | None]:
    """The arrays among what was returned that are of the inputs' shapes, in order; None for an input without one."""
    arrays = [array for _, array in arrays_in(returned)]
    found: list[Tensor | None] = []
    for leaf in leaves:
        index = next((i for i, one in enumerate(arrays) if one.shape == tuple(leaf.shape)), None)
        array = None if index is None else arrays.pop(index)
        found.append(None if array is None else torch.as_tensor(np.array(array)).to(leaf.dtype))
    return found


def arrays_in(value: Any, path: tuple[str, ...] = (), depth: int = 4) -> Iterator[tuple[tuple[str, ...], np.ndarray]]:
    """The arrays of fractions in what was returned or kept, each with the keys that lead to it."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        yield path, value
    elif isinstance(value, dict) and depth:
        for key, part in value.items():
            yield from arrays_in(part, (*path, str(key)), depth - 1)
    elif isinstance(value, (list, tuple)) and depth:
        for index, part in enumerate(value):
            yield from arrays_in(part, (*path, str(index)), depth - 1)
    elif depth and boxed(value):
        yield from arrays_in(vars(value), path, depth - 1)
