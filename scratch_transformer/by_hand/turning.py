"""The turn of pairs of features: its derivative is the turn back."""

from __future__ import annotations

import torch
from torch import Tensor

from scratch_transformer.by_hand.passes import Kept, Passes


class Rotary(Passes):
    """x (*, L, d), turns (2, *, L, d/2) of its dtype, interleaved or halves."""

    tensors, differentiable = 2, 1

    @staticmethod
    def forward(x: Tensor, turns: Tensor, interleaved: bool) -> tuple[Tensor, Kept]:
        cos, sin = turns
        return _turned(x, cos, sin, interleaved), ()

    @staticmethod
    def backward(grad: Tensor, kept: Kept, x: Tensor, turns: Tensor, interleaved: bool) -> tuple[Tensor]:
        cos, sin = turns
        return (_turned(grad, cos, -sin, interleaved),)


def _turned(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    turned = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    (a, b), (new_a, new_b) = _pairs(x, interleaved), _pairs(turned, interleaved)
    torch.mul(a, cos, out=new_a).addcmul_(b, sin, value=-1)
    torch.mul(a, sin, out=new_b).addcmul_(b, cos)
    return turned


def _pairs(x: Tensor, interleaved: bool) -> tuple[Tensor, ...]:
    return x.unflatten(-1, (-1, 2)).unbind(-1) if interleaved else x.chunk(2, -1)
