"""What the invariants share: sizes and flags to vary, a component ready to run, and what its inputs influence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from scratch_transformer.conformance import draw as sizes
from scratch_transformer.conformance.compare import relative_error
from scratch_transformer.conformance.component import Invariant
from scratch_transformer.conformance.draw import Draw

Build = Callable[..., Any]
"""Makes the component that is checked from constructor arguments: a module, or a function with arguments filled in."""


@dataclass(frozen=True)
class Setting:
    """Sizes and flags with which an invariant is checked. The table uses these, Hypothesis draws others."""

    B: int = sizes.B
    T: int = sizes.T  # queries
    S: int = sizes.S  # keys
    H: int = sizes.H
    D: int = sizes.D  # width of a head
    FF: int = sizes.FF  # width of the feed-forward network
    bias: bool = True
    batch_first: bool = True
    norm_first: bool = False
    activation: str = "relu"
    padding: str = "right"  # or "left"
    additive: bool = False  # float masks in place of boolean ones
    need_weights: bool = True

    @property
    def E(self) -> int:
        """The width of the model."""
        return self.H * self.D

    @property
    def attention(self) -> dict[str, Any]:
        """Constructor arguments of MultiheadAttention. The dropout must not act: invariants run in evaluation mode."""
        options = {"bias": self.bias, "batch_first": self.batch_first}
        return {"embed_dim": self.E, "num_heads": self.H, "dropout": 0.3, **options}

    @property
    def layer(self) -> dict[str, Any]:
        """Constructor arguments of the encoder's and the decoder's layers, and of everything made of them."""
        options = {"bias": self.bias, "batch_first": self.batch_first, "norm_first": self.norm_first}
        activation = {"activation": self.activation}
        size = {"d_model": self.E, "nhead": self.H, "dim_feedforward": self.FF}
        return {**size, "dropout": 0.3, **activation, **options}

    def blocking(self, blocked: Tensor, draw: Draw) -> Tensor:
        """A mask in torch.nn's convention that blocks where `blocked`."""
        return draw.additive(blocked) if self.additive else blocked

    def sequences(self, module: Callable[..., Any]) -> Callable[..., Tensor]:
        """`module` on sequences with the batch first, whatever it was built for; of several outputs the first.

        masks: positional arguments after the sequences; `src_mask` of a layer is `mask` of a stack.
        """

        def call(*sequences: Tensor, masks: Sequence[Tensor | None] = (), **options: Any) -> Tensor:
            if self.batch_first:
                return _first(module(*sequences, *masks, **options))
            return _first(module(*(x.transpose(0, 1) for x in sequences), *masks, **options)).transpose(0, 1)

        return call


DEFAULT = Setting()


def tolerance(dtype: torch.dtype = torch.float64) -> float:
    """How far an invariant may be off by rounding: two thirds of the digits must be right, in float64 4e-11."""
    return torch.finfo(dtype).eps ** (2 / 3)


def prepared(callee: Any, draw: Draw, training: bool = False) -> Any:
    """A module with random parameters in evaluation mode, or train mode; anything else as it is."""
    if isinstance(callee, nn.Module):
        callee.to(draw.device, draw.dtype).train(training)
        draw.randomise(callee)
    return callee


def difference(actual: Tensor, expected: Tensor | float) -> float:
    """‖actual - expected‖∞ / max(‖expected‖∞, 1); infinite if shapes differ or anything is infinite or NaN."""
    if not isinstance(expected, Tensor):
        expected = torch.full_like(actual, expected)
    return relative_error(actual.detach(), expected.detach(), least_scale=1.0) if actual.isfinite().all() else torch.inf


def order(length: int, draw: Draw) -> Tensor:
    """A random permutation of 0 … length - 1, not the identity if there is another."""
    permutation = torch.randperm(length, generator=draw.generator)
    is_identity = permutation.equal(torch.arange(length))
    return (permutation.roll(1) if is_identity else permutation).to(draw.device)


def response(function: Callable[..., Tensor], *inputs: Tensor) -> tuple[Tensor, ...]:
    """function(*inputs), and the gradients of all inputs for an upstream gradient that depends on the shape only."""
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    output = function(*leaves)
    upstream = Draw(0, output.dtype, str(output.device)).normal(*output.shape)
    gradients = torch.autograd.grad(output, leaves, upstream, allow_unused=True)
    zeros = (torch.zeros_like(x) for x in leaves)
    return output, *(zero if g is None else g for g, zero in zip(gradients, zeros, strict=True))


def influence(function: Callable[..., Tensor], inputs: Sequence[Tensor], hidden: Sequence[Tensor | None]) -> float:
    """How much function(*inputs) depends on the entries of its inputs that `hidden` marks.

    0 if f(x') = f(x) and ∂f/∂x (x') = ∂f/∂x (x) for every x' that has huge numbers in the hidden entries, and ∂f/∂x
    is exactly 0 there.

    hidden: for every input a boolean tensor that broadcasts to it, or None.
    """
    huge = torch.finfo(inputs[0].dtype).max ** 0.25  # its square, and sums of that, are finite
    changed = [x if h is None else x.masked_fill(h, huge) for x, h in zip(inputs, hidden, strict=True)]
    before, after = response(function, *inputs), response(function, *changed)
    leaks = [g[h.expand_as(g)].abs().sum().item() for g, h in zip(before[1:], hidden, strict=True) if h is not None]
    return max(*(difference(b, a) for a, b in zip(before, after, strict=True)), *leaks)


def named(*properties: Callable[..., float]) -> tuple[Invariant, ...]:
    """Invariants that are called like their functions."""
    return tuple(Invariant(f.__name__.replace("_", " "), f) for f in properties)


def _first(output: Any) -> Tensor:
    return output[0] if isinstance(output, tuple) else output
