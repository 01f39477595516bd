"""An algorithm's operator without torch's dispatcher, where nobody but autograd looks.

Compiled graphs, transforms and modes that count or trace see the operators whole. On the way through the dispatcher
and back an operator written in Python costs 10 to 20 µs: with few tokens more than a kernel itself. The first time it
loads torch's compiler as well, a second or two and 125 MiB. A plain call saves both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from scratch_transformer.by_hand.passes import is_plain


def differentiating(run: Callable[..., Any], operator: Callable[..., Any], *tensors: Tensor) -> Callable[..., Any]:
    """`run`, the backward pass; or its operator, where tensors are not plain or gradients are recorded.

    Then somebody wants second derivatives, which the operator refuses.
    """
    return run if not torch.is_grad_enabled() and is_plain(*tensors) else operator


class Eager:
    """Calls `forward`, or the operator of it, with the same arguments; the first `tensors` are tensors or None.

    setup_context and gradients: as for the operator's `register_autograd`.
    """

    def __init__(
        self,
        operator: Callable[..., Any],
        forward: Callable[..., Any],
        setup_context: Callable[..., None],
        gradients: Callable[..., Any],
        tensors: int,
    ) -> None:
        class Differentiable(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, *args: Any) -> Any:
                output = forward(*args)
                setup_context(ctx, args, output)
                return output

            backward = staticmethod(gradients)

        self.operator, self.run, self.differentiable, self.tensors = operator, forward, Differentiable, tensors

    def __call__(self, *args: Any) -> Any:
        tensors = args[: self.tensors]
        if not is_plain(*tensors):
            return self.operator(*args)
        if torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors):
            return self.differentiable.apply(*args)
        return self.run(*args)
