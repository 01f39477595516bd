"""The gated feed-forward layer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor
from torch.nn import Module

from scratch_transformer import functional
from scratch_transformer.nn.linear import Linear

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu_tanh": partial(functional.gelu, approximate="tanh"),
    "relu": functional.relu,
    "sigmoid": functional.sigmoid,
}


class GatedFeedForward(Module):
    """(act(x W_gate) ⊙ x W_up) W_down at every position. Source: Shazeer 2020, equations 5 and 6.

        x (*, d_model) ─┬─ gate_proj ─ act ─ (*, d_ff) ─┐
                        └─ up_proj ───────── (*, d_ff) ─⊙─ down_proj ─ (*, d_model)

    activation: "silu" (SwiGLU, as Llama), "gelu" or "gelu_tanh" (GEGLU), "relu" (ReGLU) or "sigmoid" (GLU).

    Raises:
        ValueError: another activation.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        activation: str = "silu",
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            known = ", ".join(ACTIVATIONS)
            raise ValueError(f"GatedFeedForward: activation must be one of {known}, but is {activation!r}")
        self.activation = activation
        self.gate_proj = Linear(d_model, d_ff, bias, device, dtype)
        self.up_proj = Linear(d_model, d_ff, bias, device, dtype)
        self.down_proj = Linear(d_ff, d_model, bias, device, dtype)

    def forward(self, x: Tensor) -> Tensor:
        """(*, d_model) -> (*, d_model)."""
        return self.down_proj(ACTIVATIONS[self.activation](self.gate_proj(x)) * self.up_proj(x))

    def extra_repr(self) -> str:
        return f"activation={self.activation!r}"
