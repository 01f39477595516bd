"""Names as in TensorFlow's tutorial: `dec_padding_mask` hides the source's padding; masks are 1 where blocked."""

import math

import torch
from torch import nn


class PositionalEncoding(nn.Module):
    def __init__(self, max_len, d_model, device="cpu"):
        super().__init__()
        angles = torch.arange(max_len)[:, None] * torch.exp(-math.log(10000.0) / d_model * torch.arange(0, d_model, 2))
        table = torch.stack((angles.sin(), angles.cos()), -1).flatten(1).to(device)
        self.register_buffer("table", table)

    def forward(self, x):
        return x + self.table[: x.size(1)]


class MultiHeadAttention(nn.Module):
    def __init__(self, head_size, d_model):
        super().__init__()
        assert d_model % head_size == 0
        self.head_size, self.depth = head_size, d_model // head_size
        self.wq, self.wk, self.wv, self.dense = (nn.Linear(d_model, d_model) for _ in range(4))

    def split_heads(self, x):
        return x.view(x.size(0), -1, self.head_size, self.depth).transpose(1, 2)

    def forward(self, q, k, v, mask):
        q, k, v = self.split_heads(self.wq(q)), self.split_heads(self.wk(k)), self.split_heads(self.wv(v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.depth)
        if mask is not None:
            scores = scores + mask.double() * -1e9
        return self.dense((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, d_model, num_heads, dff, norms):
        super().__init__()
        self.attention = MultiHeadAttention(num_heads, d_model)
        self.crossing = MultiHeadAttention(num_heads, d_model) if norms == 3 else None
        self.wide, self.narrow = nn.Linear(d_model, dff), nn.Linear(dff, d_model)
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(norms))

    def forward(self, x, mask, enc_output=None, padding_mask=None):
        x = self.norms[0](x + self.attention(x, x, x, mask))
        if self.crossing is not None:
            x = self.norms[1](x + self.crossing(x, enc_output, enc_output, padding_mask))
        return self.norms[-1](x + self.narrow(torch.relu(self.wide(x))))


class Transformer(nn.Module):
    def __init__(self, num_layers, d_model, num_heads, dff, input_vocab_size, target_vocab_size, max_len=64):
        super().__init__()
        self.scale = math.sqrt(d_model)
        self.input_embedding = nn.Embedding(input_vocab_size, d_model)
        self.target_embedding = nn.Embedding(target_vocab_size, d_model)
        self.positions = PositionalEncoding(max_len, d_model)
        self.encoder = nn.ModuleList(Layer(d_model, num_heads, dff, 2) for _ in range(num_layers))
        self.decoder = nn.ModuleList(Layer(d_model, num_heads, dff, 3) for _ in range(num_layers))
        self.final_layer = nn.Linear(d_model, target_vocab_size)

    def forward(self, inp, tar, enc_padding_mask=None, look_ahead_mask=None, dec_padding_mask=None):
        memory = self.positions(self.input_embedding(inp) * self.scale)
        for layer in self.encoder:
            memory = layer(memory, enc_padding_mask)
        x = self.positions(self.target_embedding(tar) * self.scale)
        for layer in self.decoder:
            x = layer(x, look_ahead_mask, memory, dec_padding_mask)
        return self.final_layer(x)
