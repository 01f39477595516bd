"""Two parts of a Transformer, as somebody might write them."""

import math

import torch
from torch import nn


class LayerNorm(nn.Module):
    """Normalizes the features of each token."""

    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(d_model))
        self.beta = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        var = x.var(-1, keepdim=True)
        return self.gamma * (x - mean) / torch.sqrt(var + self.eps) + self.beta


class MultiHeadAttention(nn.Module):
    """Several heads of scaled dot-product attention."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads, self.d_k = n_heads, d_model // n_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, q, k, v, mask=None):
        q, k, v = self.split(self.w_q(q)), self.split(self.w_k(k)), self.split(self.w_v(v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_k * self.n_heads)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        x = scores.softmax(-1) @ v
        return self.w_o(x.transpose(1, 2).flatten(2))

    def split(self, x):
        return x.unflatten(-1, (self.n_heads, self.d_k)).transpose(1, 2)
