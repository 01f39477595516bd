"""Lesson 6: several heads.

    MultiHead(Q, K, V) = Concat(head_1, …, head_h) W_o
    head_i = softmax(Q_i K_iᵀ / √d_k) V_i,      Q_i: columns i·d_k … (i+1)·d_k - 1 of Q W_q;  K_i, V_i likewise

h = num_heads must divide d_model; d_k = d_model / h. Each W is an nn.Linear(d_model, d_model).

Check it as often as you like:    scratch-transformer check lesson06.py
Stuck? One hint at a time:        scratch-transformer learn heads --hint
"""

import math

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    """Attention in num_heads subspaces at once."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        raise NotImplementedError("not written yet: your code here")

    def forward(self, query, key, value, mask=None):
        """query (B, T, d_model), key and value (B, S, d_model). Returns (B, T, d_model).

        mask: True = may attend, to be broadcast to (B, h, T, S).
        """
        raise NotImplementedError("not written yet: your code here")
