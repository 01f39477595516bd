"""Lesson 2: positions.

    PE(pos, 2i)     = sin(pos / 10000^(2i / d_model))
    PE(pos, 2i + 1) = cos(pos / 10000^(2i / d_model))

pos: 0 … max_len - 1. 2i: the even numbers 0, 2, … below d_model. The table PE, (max_len, d_model), is not learned.

Check it as often as you like:    scratch-transformer check lesson02.py
Stuck? One hint at a time:        scratch-transformer learn positions --hint
"""

import torch
from torch import nn


class PositionalEncoding(nn.Module):
    """Adds the table's row of its position to every token."""

    def __init__(self, d_model, max_len):
        super().__init__()
        raise NotImplementedError("not written yet: your code here")

    def forward(self, x):
        """x: (B, T, d_model), T ≤ max_len. Returns x + PE, the same shape."""
        raise NotImplementedError("not written yet: your code here")
