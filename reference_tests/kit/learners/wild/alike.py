"""A model whose source and target have its longest length always, as its positions are a table of that.

The layer that gives the scores of the words is called as the attention's is.
"""

import math

import torch
import torch.nn as nn


class MultiHeadAttention(nn.Module):
    def __init__(self, seq_len, d_model, num_heads, causal=False):
        super().__init__()
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model) for _ in range(4))
        self.register_buffer("later", torch.ones(seq_len, seq_len).triu(1).bool() if causal else None)

    def forward(self, q, k, v, padding_mask=None):
        q, k, v = (
            w(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for w, x in zip((self.W_q, self.W_k, self.W_v), (q, k, v))
        )
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if self.later is not None:
            scores = scores.masked_fill(self.later, float("-inf"))
        if padding_mask is not None:
            scores = scores.masked_fill(padding_mask[:, None, None], float("-inf"))
        return self.W_o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Encoder(nn.Module):
    def __init__(self, seq_len, d_model, num_heads, proj_dim):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.mha = MultiHeadAttention(seq_len, d_model, num_heads)
        self.ffn = nn.Sequential(nn.Linear(d_model, proj_dim), nn.ReLU(), nn.Linear(proj_dim, d_model))

    def forward(self, x, padding_mask=None):
        x = self.norm1(self.mha(x, x, x, padding_mask) + x)
        return self.norm2(self.ffn(x) + x)


class Decoder(nn.Module):
    def __init__(self, seq_len, d_model, num_heads, proj_dim):
        super().__init__()
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))
        self.mha1 = MultiHeadAttention(seq_len, d_model, num_heads, causal=True)
        self.mha2 = MultiHeadAttention(seq_len, d_model, num_heads)
        self.ffn = nn.Sequential(nn.Linear(d_model, proj_dim), nn.ReLU(), nn.Linear(proj_dim, d_model))

    def forward(self, x, enc_output, src_padding_mask=None, tgt_padding_mask=None):
        x = self.norm1(self.mha1(x, x, x, tgt_padding_mask) + x)
        x = self.norm2(self.mha2(x, enc_output, enc_output, src_padding_mask) + x)
        return self.norm3(self.ffn(x) + x)


class Transformer(nn.Module):
    def __init__(self, vocab_size, seq_len=50, d_model=512, num_heads=8, proj_dim=2048, num_encoders=6, num_decoders=6):
        super().__init__()
        self.token_embeddings = nn.Embedding(vocab_size + 3, d_model)
        angles = torch.arange(seq_len)[:, None] * torch.exp(
            torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model)
        )
        self.register_buffer("positions", torch.stack((angles.sin(), angles.cos()), -1).flatten(1))
        sizes = seq_len, d_model, num_heads, proj_dim
        self.encoders = nn.ModuleList([Encoder(*sizes) for _ in range(num_encoders)])
        self.decoders = nn.ModuleList([Decoder(*sizes) for _ in range(num_decoders)])
        self.W_o = nn.Linear(d_model, vocab_size + 3)

    def forward(self, encoder_input, decoder_input, src_padding_mask=None, tgt_padding_mask=None):
        memory = self.token_embeddings(encoder_input) + self.positions
        for encoder in self.encoders:
            memory = encoder(memory, src_padding_mask)
        x = self.token_embeddings(decoder_input) + self.positions
        for decoder in self.decoders:
            x = decoder(x, memory, src_padding_mask, tgt_padding_mask)
        return self.W_o(x)
