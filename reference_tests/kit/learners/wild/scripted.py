"""Compiled functions and modules, what is passed to attention by its caller, masks under unusual names."""

import torch
import torch.nn as nn


@torch.jit.script
def gelu(x):
    return x * 0.5 * (1.0 + torch.erf(x / 1.41421356237309504880))


def attention(query, key, value, mask, dropout, scale):
    weights = query @ key.transpose(-2, -1) * scale
    if mask is not None:
        weights = weights.masked_fill(mask == 0, float("-inf"))
    return dropout(weights.softmax(dim=-1)) @ value


class FeedForward(torch.jit.ScriptModule):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    @torch.jit.script_method
    def forward(self, x):
        return self.down(gelu(self.up(x)))


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, heads, p=0.1):
        super().__init__()
        self.heads, self.scale = heads, (d_model // heads) ** -0.5
        self.drop, self.out = nn.Dropout(p), nn.Linear(d_model, d_model)
        self.to_q, self.to_k, self.to_v = (nn.Linear(d_model, d_model) for _ in range(3))

    def forward(self, q, k, v, mask=None):
        with torch.cuda.nvtx.range("attention"):
            q, k, v = (
                f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
                for f, x in ((self.to_q, q), (self.to_k, k), (self.to_v, v))
            )
            return self.out(attention(q, k, v, mask, self.drop, self.scale).transpose(1, 2).flatten(2))
