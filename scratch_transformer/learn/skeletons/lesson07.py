"""Lesson 7: layer normalization.

    y = (x - μ) / √(σ² + ε) · γ + β

μ and σ²: mean and variance of the d_model features of one token; σ² divides by d_model. γ, β: (d_model,), learned.

Check it as often as you like:    scratch-transformer check lesson07.py
Stuck? One hint at a time:        scratch-transformer learn norms --hint
"""

import torch
from torch import nn


class LayerNorm(nn.Module):
    """Brings every token to mean 0 and variance 1, then scales by γ and shifts by β. No nn.LayerNorm."""

    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        raise NotImplementedError("not written yet: your code here")

    def forward(self, x):
        """x: (B, T, d_model). Returns the same shape."""
        raise NotImplementedError("not written yet: your code here")
