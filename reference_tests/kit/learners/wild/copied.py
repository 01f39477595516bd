"""A stack that is given one layer, which it keeps beside the copies that it makes of it."""

import copy
import math

import torch.nn as nn


class MultiHeadAttention(nn.Module):
    def __init__(self, embed_size, num_heads, batch_dim=0):
        super().__init__()
        self.h, self.batch_dim = num_heads, batch_dim
        self.q, self.k, self.v, self.out = (nn.Linear(embed_size, embed_size) for _ in range(4))

    def forward(self, q, k, v, mask=None):
        if self.batch_dim == 0:
            found = self.attend(q, k, v, mask)
        elif self.batch_dim == 1:
            found = self.attend(q.mT, k.mT, v.mT, mask)
        return found

    def attend(self, q, k, v, mask):
        q, k, v = (w(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for w, x in ((self.q, q), (self.k, k), (self.v, v)))
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class EncoderLayer(nn.Module):
    def __init__(self, embed_size, num_heads, d_ff):
        super().__init__()
        self.width = embed_size
        self.mha = MultiHeadAttention(embed_size, num_heads)
        self.norm1, self.norm2 = nn.LayerNorm(embed_size), nn.LayerNorm(embed_size)
        self.ff = nn.Sequential(nn.Linear(embed_size, d_ff), nn.ReLU(), nn.Linear(d_ff, embed_size))

    def forward(self, x, src_mask):
        y = self.norm1(x)
        x = x + self.mha(y, y, y, src_mask)
        return x + self.ff(self.norm2(x))


class Encoder(nn.Module):
    def __init__(self, layers, encoder):
        super().__init__()
        assert isinstance(encoder, EncoderLayer)
        self.encoder = encoder
        self.stack = nn.ModuleList([copy.deepcopy(self.encoder) for _ in range(layers)])
        self.norm = nn.LayerNorm(encoder.width)

    def forward(self, x, mask):
        for layer in self.stack:
            x = layer(x, mask)
        return self.norm(x)
