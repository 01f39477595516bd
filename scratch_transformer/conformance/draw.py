"""Random inputs, reproducible, the same values in every dtype up to rounding.

Sizes are all different and awkward, so that no transposition and no swapped argument can hide.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

B, T, S = 2, 5, 7  # batch, queries (target length), keys (source length)
H, D = 3, 4  # heads, width of a head
E, KDIM, VDIM, FF = H * D, 10, 9, 17  # model, keys, values, feed-forward
VOCABULARY = 11


class Draw:
    """Draws tensors from one seeded stream, on the CPU in float64, and hands them out in `dtype` on `device`."""

    def __init__(self, seed: int = 0, dtype: torch.dtype = torch.float64, device: str = "cpu") -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.dtype = dtype
        self.device = device

    def normal(self, *shape: int, scale: float = 1.0) -> Tensor:
        """Independent N(0, scale²)."""
        values = torch.randn(shape, generator=self.generator, dtype=torch.float64) * scale
        return values.to(self.device, self.dtype)

    def probabilities(self, *shape: int, dim: int) -> Tensor:
        """Positive numbers that sum to one along dim."""
        values = torch.rand(shape, generator=self.generator, dtype=torch.float64) + 0.1
        return (values / values.sum(dim, keepdim=True)).to(self.device, self.dtype)

    def ids(self, *shape: int, below: int = VOCABULARY) -> Tensor:
        """Integers in [0, below)."""
        return torch.randint(below, shape, generator=self.generator).to(self.device)

    def some(self, *shape: int, share: float = 0.3) -> Tensor:
        """Booleans, `share` of them True, never all of a row."""
        chosen = torch.rand(shape, generator=self.generator) < share
        chosen[..., 0] &= ~chosen.all(dim=-1)
        return chosen.to(self.device)

    def padding(self, batch: int, length: int, side: str = "right") -> Tensor:
        """(batch, length), True = padding: another number of padded positions in every row, none in the first."""
        padded = torch.arange(batch).unsqueeze(1) % length  # 0, 1, 2, ... positions
        position = torch.arange(length)
        mask = position >= length - padded if side == "right" else position < padded
        return mask.to(self.device)

    def future(self, length: int) -> Tensor:
        """(length, length), True = in the future: what a causal mask blocks."""
        return torch.ones(length, length, dtype=torch.bool, device=self.device).triu(1)

    def additive(self, blocked: Tensor) -> Tensor:
        """A random float mask, with -inf where `blocked`."""
        return self.normal(*blocked.shape).masked_fill(blocked, float("-inf"))

    def randomise(self, module: nn.Module) -> None:
        """Overwrite every parameter and floating-point buffer: biases that start at zero hide a forgotten bias."""
        class_weights = {"weight"} - dict(module.named_parameters()).keys()  # a loss has its weight as a buffer
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
            if tensor.is_floating_point():
                values = torch.randn(tensor.shape, generator=self.generator, dtype=torch.float64) / 2
                is_positive = name.endswith("running_var") or name in class_weights
                tensor.data.copy_(values.abs() + 0.1 if is_positive else values)
