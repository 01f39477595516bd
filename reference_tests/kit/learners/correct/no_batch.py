"""One sentence at a time, heads in a list; parts of language models in their plainest or their least usual form."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    hidden_size: int = 64
    num_attention_heads: int = 8
    num_key_value_heads: int = 4
    max_position_embeddings: int = 256
    vocab_size: int = 1000
    dropout: float = 0.1


class AttentionHead(nn.Module):
    """(L, d_model) -> (L, d_k)."""

    def __init__(self, d_model, d_k):
        super().__init__()
        self.embeddings_to_queries_layer = nn.Linear(d_model, d_k)
        self.embeddings_to_keys_layer = nn.Linear(d_model, d_k)
        self.embeddings_to_values_layer = nn.Linear(d_model, d_k)

    def forward(self, embeddings):
        q, k = self.embeddings_to_queries_layer(embeddings), self.embeddings_to_keys_layer(embeddings)
        weights = F.softmax(q @ k.T / math.sqrt(q.shape[1]), dim=1)
        return weights @ self.embeddings_to_values_layer(embeddings)


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model=512, h=8, d_k=64):
        super().__init__()
        self.attention_heads = nn.ModuleList([AttentionHead(d_model, d_k) for _ in range(h)])
        self.final_linear_layer = nn.Linear(h * d_k, d_model)

    def forward(self, embeddings):
        return self.final_linear_layer(torch.cat([head(embeddings) for head in self.attention_heads], dim=1))


class SelfAttention(nn.Module):
    """One of the heads that a config asks for."""

    def __init__(self, config):
        super().__init__()
        head_size = config.hidden_size // config.num_attention_heads
        self.q_w = nn.Linear(config.hidden_size, head_size, bias=False)
        self.k_w = nn.Linear(config.hidden_size, head_size, bias=False)
        self.v_w = nn.Linear(config.hidden_size, head_size, bias=False)

    def forward(self, query, key, value, mask=None):
        scores = torch.bmm(self.q_w(query), self.k_w(key).permute(0, 2, 1)) / self.q_w.out_features**0.5
        if mask is not None:
            scores = scores.masked_fill(mask, -math.inf)
        weights = scores.softmax(-1)
        return torch.bmm(weights, self.v_w(value)), weights


class SelfAttentionWide(nn.Module):
    """Every head is as wide as the model."""

    def __init__(self, emb, heads=8):
        super().__init__()
        self.heads = heads
        self.tokeys = nn.Linear(emb, emb * heads, bias=False)
        self.toqueries = nn.Linear(emb, emb * heads, bias=False)
        self.tovalues = nn.Linear(emb, emb * heads, bias=False)
        self.unifyheads = nn.Linear(heads * emb, emb)

    def forward(self, x):
        b, t, e = x.shape
        projections = (self.tokeys, self.toqueries, self.tovalues)
        k, q, v = (to(x).view(b, t, self.heads, e).transpose(1, 2) for to in projections)
        heads = F.softmax((q / e**0.25) @ (k / e**0.25).transpose(2, 3), dim=3) @ v
        return self.unifyheads(heads.transpose(1, 2).reshape(b, t, -1))


class CausalGroupedAttention(nn.Module):
    """Keys and values in one matrix, which may be square; a mask of padding beside the triangle."""

    def __init__(self, config):
        super().__init__()
        self.h, self.kv = config.num_attention_heads, config.num_key_value_heads
        self.d = config.hidden_size // self.h
        self.q_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.kv_proj = nn.Linear(config.hidden_size, 2 * self.kv * self.d, bias=False)
        self.o_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def make_causal_mask(self, length):
        mask = torch.zeros(length, length)
        return mask.masked_fill(torch.ones(length, length).triu(1).bool(), float("-inf"))

    def forward(self, x, attention_mask=None):
        B, T, C = x.shape
        q = self.q_proj(x).view(B, T, self.h, self.d).transpose(1, 2)
        k, v = (y.view(B, T, self.kv, self.d).transpose(1, 2) for y in self.kv_proj(x).chunk(2, dim=-1))
        k, v = (y.repeat_interleave(self.h // self.kv, dim=1) for y in (k, v))
        scores = q @ k.transpose(-2, -1) * self.d**-0.5 + self.make_causal_mask(T)
        if attention_mask is not None:
            scores = scores + attention_mask[:, None, None]
        return self.o_proj((F.softmax(scores, dim=-1) @ v).transpose(1, 2).reshape(B, T, C))


def scaled_dot_product_attention(Q, K, V, mask=None):
    """Causal where nothing else is asked for."""
    keep = torch.ones(Q.shape[-2], K.shape[-2], dtype=torch.bool).tril() if mask is None else mask
    scores = (Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1])).masked_fill(~keep, float("-inf"))
    return scores.softmax(-1) @ V


class FeedForward(nn.Module):
    """As it is written first: nothing after the activation."""

    def __init__(self, n_embd):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_embd, n_embd), nn.ReLU())

    def forward(self, x):
        return self.net(x)


class FeedForwardLayer(nn.Module):
    """Convolutions of one position, no wider than the model."""

    def __init__(self, dim_model):
        super().__init__()
        self.layer_1 = nn.Conv1d(dim_model, dim_model, 1)
        self.layer_2 = nn.Conv1d(dim_model, dim_model, 1)

    def forward(self, sequence):
        return self.layer_2(F.relu(self.layer_1(sequence.transpose(1, 2)))).transpose(1, 2)


class SwiGLU(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear_gate, self.linear = nn.Linear(size, size), nn.Linear(size, size)

    def forward(self, x):
        gate = self.linear_gate(x)
        return gate * torch.sigmoid(gate) * self.linear(x)


class Embeddings(nn.Module):
    """Tokens, positions and segments."""

    def __init__(self, config):
        super().__init__()
        self.token_embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.segment_embeddings = nn.Embedding(3, config.hidden_size)
        self.positional_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)

    def forward(self, input_ids, segment_ids):
        positions = torch.arange(input_ids.size(1))[None]
        x = self.token_embeddings(input_ids) + self.positional_embeddings(positions)
        return x + self.segment_embeddings(segment_ids)


def precompute_freqs_cis(head_dim, max_len, theta=10000.0):
    """Cosines, then sines, in one table."""
    angles = torch.outer(torch.arange(max_len).float(), theta ** (-torch.arange(0, head_dim, 2).float() / head_dim))
    return torch.cat([angles.cos(), angles.sin()], dim=-1)


def apply_rotary_emb(x, cos_sin):
    first, second = x.reshape(*x.shape[:-1], -1, 2).unbind(-1)
    cos, sin = cos_sin.chunk(2, dim=-1)
    return torch.stack([first * cos - second * sin, first * sin + second * cos], dim=-1).reshape(x.shape)
