"""Sizes written into the code: a norm of 512 features, heads 64 wide, a table of one length."""

import math

import torch
import torch.nn as nn


class MultiHeadAttention(nn.Module):
    """Its heads are 64 features wide, whatever it is told."""

    def __init__(self, d_model):
        super().__init__()
        assert d_model % 64 == 0, "d_model must be a multiple of 64"
        self.h = d_model // 64
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, mask=None):
        q, k, v = (f(x).unflatten(-1, (self.h, 64)).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = q @ k.transpose(-2, -1) / 64**0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.expand, self.shrink = nn.Linear(512, d_ff), nn.Linear(d_ff, 512)

    def forward(self, x):
        return self.shrink(torch.relu(self.expand(x)))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.attention = nn.MultiheadAttention(d_model, n_heads, batch_first=True)
        self.feed_forward = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2 = nn.LayerNorm(512), nn.LayerNorm(512)

    def forward(self, x, pad=None):
        x = self.norm1(x + self.attention(x, x, x, key_padding_mask=pad, need_weights=False)[0])
        return self.norm2(x + self.feed_forward(x))


class CausalSelfAttention(nn.Module):
    """Works with sequences of its longest length alone."""

    def __init__(self, d_model, n_heads, seq_len):
        super().__init__()
        self.h, self.length = n_heads, seq_len
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.register_buffer("later", torch.ones(seq_len, seq_len, dtype=torch.bool).triu(1))

    def forward(self, x):
        q, k, v = (t.reshape(len(x), self.length, self.h, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        scores = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).masked_fill(self.later, -math.inf)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(len(x), self.length, -1))
