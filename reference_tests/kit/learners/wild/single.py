"""An encoder of one layer alone, in no list, that knows nothing of padding."""

import torch
import torch.nn as nn


class Block(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.attn = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.ff = nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.ReLU(), nn.Linear(4 * d_model, d_model))

    def forward(self, x):
        x = self.norm1(x + self.attn(x, x, x)[0])
        return self.norm2(x + self.ff(x))


class TransformerEncoder(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, max_seq_len):
        super().__init__()
        self.words, self.places = nn.Embedding(vocab_size, d_model), nn.Embedding(max_seq_len, d_model)
        self.block = Block(d_model, num_heads)

    def forward(self, ids):
        return self.block(self.words(ids) + self.places(torch.arange(ids.shape[1])))
