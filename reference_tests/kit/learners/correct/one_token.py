"""A Llama for inference alone: it takes one token at a time, and keeps keys and values in a table of its own."""

import math
from dataclasses import dataclass
from typing import Optional

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class ModelArgs:
    dim: int = 4096
    n_layers: int = 32
    n_heads: int = 32
    n_kv_heads: Optional[int] = None
    vocab_size: int = -1
    multiple_of: int = 256
    norm_eps: float = 1e-5
    max_batch_size: int = 32
    max_seq_len: int = 2048


def precompute_theta(head_dim, seq_len, theta=10000.0):
    freqs = torch.outer(torch.arange(seq_len), 1.0 / theta ** (torch.arange(0, head_dim, 2).float() / head_dim)).float()
    return torch.polar(torch.ones_like(freqs), freqs)


def apply_rotary_embeddings(x, freqs_complex):
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    turned = pairs * freqs_complex.unsqueeze(0).unsqueeze(2)
    return torch.view_as_real(turned).reshape(*x.shape).type_as(x)


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return self.weight * (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.eps)).type_as(x)


class SelfAttention(nn.Module):
    def __init__(self, args: ModelArgs):
        super().__init__()
        self.n_heads, self.head_dim = args.n_heads, args.dim // args.n_heads
        self.n_kv_heads = args.n_heads if args.n_kv_heads is None else args.n_kv_heads
        self.wq = nn.Linear(args.dim, args.n_heads * self.head_dim, bias=False)
        self.wk = nn.Linear(args.dim, self.n_kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(args.dim, self.n_kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(args.n_heads * self.head_dim, args.dim, bias=False)
        self.cache_k = torch.zeros(args.max_batch_size, args.max_seq_len, self.n_kv_heads, self.head_dim)
        self.cache_v = torch.zeros(args.max_batch_size, args.max_seq_len, self.n_kv_heads, self.head_dim)

    def forward(self, x, start_pos, freqs_complex):
        batch, seq_len, _ = x.shape
        xq = self.wq(x).view(batch, seq_len, self.n_heads, self.head_dim)
        xk = self.wk(x).view(batch, seq_len, self.n_kv_heads, self.head_dim)
        xv = self.wv(x).view(batch, seq_len, self.n_kv_heads, self.head_dim)
        xq, xk = apply_rotary_embeddings(xq, freqs_complex), apply_rotary_embeddings(xk, freqs_complex)
        self.cache_k[:batch, start_pos : start_pos + seq_len] = xk
        self.cache_v[:batch, start_pos : start_pos + seq_len] = xv
        times = self.n_heads // self.n_kv_heads
        keys = self.cache_k[:batch, : start_pos + seq_len].repeat_interleave(times, 2).transpose(1, 2)
        values = self.cache_v[:batch, : start_pos + seq_len].repeat_interleave(times, 2).transpose(1, 2)
        scores = xq.transpose(1, 2) @ keys.transpose(2, 3) / math.sqrt(self.head_dim)
        output = F.softmax(scores.float(), dim=-1).type_as(xq) @ values
        return self.wo(output.transpose(1, 2).reshape(batch, seq_len, -1))


class FeedForward(nn.Module):
    def __init__(self, args: ModelArgs):
        super().__init__()
        hidden = int(2 * 4 * args.dim / 3)
        hidden = args.multiple_of * ((hidden + args.multiple_of - 1) // args.multiple_of)
        self.w1 = nn.Linear(args.dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, args.dim, bias=False)
        self.w3 = nn.Linear(args.dim, hidden, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class EncoderBlock(nn.Module):
    def __init__(self, args: ModelArgs):
        super().__init__()
        self.attention, self.feed_forward = SelfAttention(args), FeedForward(args)
        self.attention_norm, self.ffn_norm = RMSNorm(args.dim, args.norm_eps), RMSNorm(args.dim, args.norm_eps)

    def forward(self, x, start_pos, freqs_complex):
        h = x + self.attention(self.attention_norm(x), start_pos, freqs_complex)
        return h + self.feed_forward(self.ffn_norm(h))


class Transformer(nn.Module):
    def __init__(self, args: ModelArgs):
        super().__init__()
        self.args, self.tok_embeddings = args, nn.Embedding(args.vocab_size, args.dim)
        self.layers = nn.ModuleList([EncoderBlock(args) for _ in range(args.n_layers)])
        self.norm, self.output = RMSNorm(args.dim, eps=args.norm_eps), nn.Linear(args.dim, args.vocab_size, bias=False)
        self.freqs_complex = precompute_theta(args.dim // args.n_heads, args.max_seq_len * 2)

    def forward(self, tokens, start_pos):
        batch, seq_len = tokens.shape
        assert seq_len == 1, "Only one token at a time can be processed"
        h, freqs_complex = self.tok_embeddings(tokens), self.freqs_complex[start_pos : start_pos + seq_len]
        for layer in self.layers:
            h = layer(h, start_pos, freqs_complex)
        return self.output(self.norm(h)).float()
