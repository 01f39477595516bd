"""Lesson 3: softmax.

    softmax(x)ᵢ = exp(xᵢ) / Σⱼ exp(xⱼ)

It must not overflow: softmax([1000, 999]) is [0.73, 0.27].

Check it as often as you like:    scratch-transformer check lesson03.py
Stuck? One hint at a time:        scratch-transformer learn softmax --hint
"""

import torch


def softmax(x, dim=-1):
    """Scores to positive weights that sum to 1 along `dim`. Any shape; returns the same shape. No torch.softmax."""
    raise NotImplementedError("not written yet: your code here")
