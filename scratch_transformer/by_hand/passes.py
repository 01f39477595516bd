"""When passes by hand are taken in place of an equation, and what happens where they are not."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

PLAIN = (Tensor, Parameter)
Kept = tuple[Any, ...]

LOG2_E = math.log2(math.e)
"""exp(x) = 2^(x log₂e), which takes a CPU a quarter of the time; large exponents lose digits that sums do not need."""


class _Switch:
    """What `equations_alone` has set."""

    is_on = True


@contextlib.contextmanager
def equations_alone() -> Iterator[None]:
    """Within this context, in every thread, no passes by hand are taken: the numbers are autograd's to the last bit."""
    before = _Switch.is_on
    _Switch.is_on = False
    try:
        yield
    finally:
        _Switch.is_on = before


class Passes:
    """Two passes: values from inputs, gradients of the inputs from that of the result.

    tensors: how many of the first arguments are tensors, or None; the others are numbers.
    differentiable: how many of these may need a gradient.
    is_projection: of its own result the function is the result, with the same derivatives: that is kept in place of
        the argument, as what follows will need it too.
    """

    tensors: int
    differentiable: int
    is_projection = False

    @staticmethod
    def forward(*args: Any) -> tuple[Tensor, Kept]:
        """The result, and the tensors to keep for `backward`."""
        raise NotImplementedError

    @staticmethod
    def backward(grad: Tensor, kept: Kept, *args: Any) -> tuple[Tensor | None, ...]:
        """The gradients of the differentiable tensors; `grad`, `kept` and `args` stay as they are."""
        raise NotImplementedError


_is_batched = torch._C._functorch.is_legacy_batchedtensor
"""Whether a tensor is several gradients that autograd was handed at once (`is_grads_batched`)."""


def is_plain(*tensors: Tensor | None) -> bool:
    """Whether the tensors have data and are no subclass's, and no compiler, transform or mode looks at calls."""
    if (
        torch.compiler.is_compiling()
        or torch._C._len_torch_dispatch_stack()
        or torch._C._are_functorch_transforms_active()
        or torch.jit.is_tracing()
    ):
        return False
    for x in tensors:  # noqa: SIM110 - a loop takes less time, and this is asked many times a step
        if x is not None and (type(x) not in PLAIN or x.is_meta or _is_batched(x)):
            return False
    return True


def are_taken(*tensors: Tensor | None) -> bool:
    """Whether passes by hand may be: `is_plain`, and no forward-mode derivatives, no autocast, nothing empty."""
    if not _Switch.is_on or torch.autograd.forward_ad._current_level >= 0 or not is_plain(*tensors):
        return False
    for x in tensors:  # noqa: SIM110
        if x is not None and (x.numel() == 0 or torch.is_autocast_enabled(x.device.type)):
            return False
    return True


def differentiated_by(passes: type[Passes]) -> Callable[[Callable[..., Tensor]], Callable[..., Tensor]]:
    """Compute a function of positional arguments by `passes`, where they are taken, instead of by its equation.

    Where second derivatives are asked for, those of the equation are recorded.
    """

    def decorate(equation: Callable[..., Tensor]) -> Callable[..., Tensor]:
        count, differentiable = passes.tensors, passes.differentiable
        function: Any = _function(equation, passes)

        @functools.wraps(equation)
        def wrapper(*args: Any) -> Tensor:
            needs = [x is not None and x.requires_grad for x in args[:count]]
            if not are_taken(*args[:count]) or True in needs[differentiable:]:
                return equation(*args)
            return function.apply(*args) if True in needs and torch.is_grad_enabled() else passes.forward(*args)[0]

        return wrapper

    return decorate


def _function(equation: Callable[..., Tensor], passes: type[Passes]) -> type[torch.autograd.Function]:
    count, differentiable = passes.tensors, passes.differentiable

    class ByHand(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Tensor:
            result, kept = passes.forward(*args)
            ctx.save_for_backward(*([result] if passes.is_projection else args[:count]), *kept)
            ctx.numbers = args[count:]
            return result

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
            args, kept = (*ctx.saved_tensors[:count], *ctx.numbers), ctx.saved_tensors[count:]
            if torch.is_grad_enabled() or not is_plain(grad):  # second derivatives, or many gradients at once
                gradients = _recorded(equation, args, ctx.needs_input_grad[:differentiable], grad)
            else:
                gradients = passes.backward(grad, kept, *args)
            return *gradients, *(None,) * (len(args) - differentiable)

    return ByHand


def _recorded(
    equation: Callable[..., Tensor], args: tuple[Any, ...], needs: tuple[bool, ...], grad: Tensor
) -> tuple[Tensor | None, ...]:
    """The equation's gradients, as functions of its arguments; of a tensor given twice, apart."""
    is_wanted_again = torch.is_grad_enabled()
    with torch.enable_grad():
        leaves = [x.view_as(x) if is_needed else x for x, is_needed in zip(args, needs, strict=False)]
        result = equation(*leaves, *args[len(leaves) :])
        wanted = [leaf for leaf, is_needed in zip(leaves, needs, strict=True) if is_needed]
        found = iter(torch.autograd.grad(result, wanted, grad, create_graph=is_wanted_again, allow_unused=True))
    return tuple(next(found) if is_needed else None for is_needed in needs)
