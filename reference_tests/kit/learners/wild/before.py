"""Masks as they were before there were boolean tensors."""

import torch
import torch.nn as nn


def subsequent_mask(size):
    return torch.ones(1, size, size).triu(1).byte()


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h = num_heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, q, k, v, mask=None):
        q, k, v = (
            w(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for w, x in zip((self.wq, self.wk, self.wv), (q, k, v))
        )
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill((mask == 0).byte(), -1e9)
        return self.wo((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class SelfAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h = num_heads
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def forward(self, x, mask):
        q, k, v = (t.unflatten(-1, (self.h, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        scores = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).masked_fill(1 - mask.bool(), -1e9)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
