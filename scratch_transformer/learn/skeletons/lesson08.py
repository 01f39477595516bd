"""Lesson 8: the feed-forward network.

    FFN(x) = max(0, x W₁ + b₁) W₂ + b₂

W₁ leads from d_model features to d_ff, W₂ back: two nn.Linear.

Check it as often as you like:    scratch-transformer check lesson08.py
Stuck? One hint at a time:        scratch-transformer learn feed_forward --hint
"""

import torch
from torch import nn


class FeedForward(nn.Module):
    """Two linear maps with max(0, ·) between, applied to every token alone."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        raise NotImplementedError("not written yet: your code here")

    def forward(self, x):
        """x: (B, T, d_model). Returns the same shape."""
        raise NotImplementedError("not written yet: your code here")
