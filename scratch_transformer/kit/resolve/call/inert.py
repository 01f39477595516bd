"""What does nothing, whatever it is taken for: a dropout that a function is given as a module, a number or None."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional


class NoDropout(float):
    """The probability 0.0, which can be called like nn.Dropout and is false like None."""

    p = 0.0
    training = False

    def __call__(self, x: Tensor) -> Tensor:
        """What it is given, by PyTorch's own function: whoever looks for dropout sees where it is."""
        return functional.dropout(x, self.p, self.training) if isinstance(x, Tensor) else x
