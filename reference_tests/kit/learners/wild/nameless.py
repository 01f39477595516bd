"""Classes whose names say nothing: what they are made of tells what they are."""

import math

import torch
import torch.nn as nn


class Mixer(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.h = n_heads
        self.qkv, self.o = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.h, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        weights = torch.softmax(scores.masked_fill(later, -math.inf), -1)
        return self.o((weights @ v).transpose(1, 2).flatten(2))


class Expander(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


class Unit(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.mix, self.expand = Mixer(d_model, n_heads), Expander(d_model, d_ff)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x):
        x = x + self.mix(self.norm1(x))
        return x + self.expand(self.norm2(x))


class AllYouNeed(nn.Module):
    def __init__(self, vocab_size, d_model, n_heads, d_ff, n_layers, max_len):
        super().__init__()
        self.words, self.places = nn.Embedding(vocab_size, d_model), nn.Embedding(max_len, d_model)
        self.units = nn.ModuleList([Unit(d_model, n_heads, d_ff) for _ in range(n_layers)])
        self.norm, self.scores = nn.LayerNorm(d_model), nn.Linear(d_model, vocab_size, bias=False)

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        for unit in self.units:
            x = unit(x)
        return self.scores(self.norm(x))
