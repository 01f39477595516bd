"""Models with one embedding for both languages, without a projection, with a number of layers of their own."""

import math

import torch
import torch.nn as nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h = num_heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, q, k, v, mask=None):
        q, k, v = (
            w(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for w, x in zip((self.wq, self.wk, self.wv), (q, k, v))
        )
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return self.wo((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attn = MultiHeadAttention(d_model, num_heads)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, mask):
        x = self.norm1(x + self.attn(x, x, x, mask))
        return self.norm2(x + self.ff(x))


class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.self_attn, self.cross_attn = (MultiHeadAttention(d_model, num_heads) for _ in range(2))
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))

    def forward(self, x, memory, mask_of_memory, mask_of_self):
        x = self.norm1(x + self.self_attn(x, x, x, mask_of_self))
        x = self.norm2(x + self.cross_attn(x, memory, memory, mask_of_memory))
        return self.norm3(x + self.ff(x))


class Transformer(nn.Module):
    """Returns the decoder's output; what gives the scores of the words is elsewhere."""

    def __init__(self, vocab_size, d_model, num_heads, d_ff, max_len=50):
        super().__init__()
        self.embedding, self.position = nn.Embedding(vocab_size, d_model), nn.Embedding(max_len, d_model)
        self.encoder = nn.ModuleList([EncoderLayer(d_model, num_heads, d_ff) for _ in range(3)])
        self.decoder = nn.ModuleList([DecoderLayer(d_model, num_heads, d_ff) for _ in range(3)])

    def embed(self, ids):
        return self.embedding(ids) + self.position(torch.arange(ids.shape[1]))

    def forward(
        self, source, target, encoder_self_attention_mask, decoder_self_attention_mask, decoder_cross_attention_mask
    ):
        memory, x = self.embed(source), self.embed(target)
        for layer in self.encoder:
            memory = layer(memory, encoder_self_attention_mask)
        for layer in self.decoder:
            x = layer(x, memory, decoder_cross_attention_mask, decoder_self_attention_mask)
        return x
