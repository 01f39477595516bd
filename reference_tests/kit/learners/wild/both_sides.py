"""An encoder and a decoder of today: RMSNorm first in every sublayer, a gate, rotary positions, shared keys."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps, self.g = eps, nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return self.g * x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


class GatedFeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.wi_0 = nn.Linear(d_model, d_ff, bias=False)
        self.wi_1 = nn.Linear(d_model, d_ff, bias=False)
        self.wo = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        return self.wo(F.gelu(self.wi_0(x)) * self.wi_1(x))


class RotaryTable(nn.Module):
    def __init__(self, dim, base=10000.0):
        super().__init__()
        self.rates = base ** (-torch.arange(0, dim, 2) / dim)

    def forward(self, length):
        angles = torch.outer(torch.arange(length), self.rates).repeat(1, 2)
        return angles.cos(), angles.sin()


def turned(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


class Attention(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads):
        super().__init__()
        self.h, self.groups, self.d = num_heads, num_heads // num_kv_heads, d_model // num_heads
        self.q = nn.Linear(d_model, d_model, bias=False)
        self.k = nn.Linear(d_model, num_kv_heads * self.d, bias=False)
        self.v = nn.Linear(d_model, num_kv_heads * self.d, bias=False)
        self.o = nn.Linear(d_model, d_model, bias=False)

    def heads(self, x):
        return x.unflatten(-1, (-1, self.d)).transpose(1, 2)

    def forward(self, query, memory, mask=None, rope=None):
        q, k, v = self.heads(self.q(query)), self.heads(self.k(memory)), self.heads(self.v(memory))
        if rope is not None:
            q, k = turned(q, *rope), turned(k, *rope)
        k, v = k.repeat_interleave(self.groups, 1), v.repeat_interleave(self.groups, 1)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d)
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, num_kv_heads):
        super().__init__()
        self.attention, self.ffn = Attention(d_model, num_heads, num_kv_heads), GatedFeedForward(d_model, d_ff)
        self.norm1, self.norm2 = RMSNorm(d_model), RMSNorm(d_model)

    def forward(self, x, rope, mask=None):
        y = self.norm1(x)
        x = x + self.attention(y, y, mask, rope)
        return x + self.ffn(self.norm2(x))


class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, num_kv_heads):
        super().__init__()
        self.self_attention = Attention(d_model, num_heads, num_kv_heads)
        self.cross_attention = Attention(d_model, num_heads, num_kv_heads)
        self.ffn = GatedFeedForward(d_model, d_ff)
        self.norm1, self.norm2, self.norm3 = RMSNorm(d_model), RMSNorm(d_model), RMSNorm(d_model)

    def forward(self, x, memory, rope, src_mask=None, tgt_mask=None):
        y = self.norm1(x)
        x = x + self.self_attention(y, y, tgt_mask, rope)
        x = x + self.cross_attention(self.norm2(x), memory, src_mask)
        return x + self.ffn(self.norm3(x))


class Stack(nn.Module):
    def __init__(self, layer, num_layers, d_model, num_heads, *sizes):
        super().__init__()
        self.rope = RotaryTable(d_model // num_heads)
        self.layers = nn.ModuleList(layer(d_model, num_heads, *sizes) for _ in range(num_layers))
        self.norm = RMSNorm(d_model)


class Encoder(Stack):
    def __init__(self, num_layers, d_model, num_heads, d_ff, num_kv_heads):
        super().__init__(EncoderLayer, num_layers, d_model, num_heads, d_ff, num_kv_heads)

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, self.rope(x.shape[1]), mask)
        return self.norm(x)


class Decoder(Stack):
    def __init__(self, num_layers, d_model, num_heads, d_ff, num_kv_heads):
        super().__init__(DecoderLayer, num_layers, d_model, num_heads, d_ff, num_kv_heads)

    def forward(self, x, memory, src_mask=None, tgt_mask=None):
        for layer in self.layers:
            x = layer(x, memory, self.rope(x.shape[1]), src_mask, tgt_mask)
        return self.norm(x)


class Transformer(nn.Module):
    def __init__(self, src_vocab_size, tgt_vocab_size, d_model, num_heads, num_layers, d_ff, num_kv_heads, pad=0):
        super().__init__()
        self.src_embed = nn.Embedding(src_vocab_size, d_model)
        self.tgt_embed = nn.Embedding(tgt_vocab_size, d_model)
        self.encoder = Encoder(num_layers, d_model, num_heads, d_ff, num_kv_heads)
        self.decoder = Decoder(num_layers, d_model, num_heads, d_ff, num_kv_heads)
        self.out = nn.Linear(d_model, tgt_vocab_size, bias=False)
        self.pad = pad

    def forward(self, src, tgt):
        T = tgt.shape[1]
        src_mask = (src != self.pad)[:, None, None, :]
        tgt_mask = (tgt != self.pad)[:, None, None, :] & torch.ones(T, T, dtype=torch.bool).tril()
        memory = self.encoder(self.src_embed(src), src_mask)
        return self.out(self.decoder(self.tgt_embed(tgt), memory, src_mask, tgt_mask))
