"""A language model for inference alone: one token at a time, keys and values kept, angles as complex numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class ModelArgs:
    dim: int = 512
    n_layers: int = 4
    n_heads: int = 8
    n_kv_heads: int | None = None
    vocab_size: int = -1
    multiple_of: int = 4
    norm_eps: float = 1e-5
    max_batch_size: int = 8
    max_seq_len: int = 128
    device: str = "cpu"


def precompute_angles(head_dim: int, seq_len: int, theta: float = 10000.0):
    inverse = 1.0 / theta ** (torch.arange(0, head_dim, 2).float() / head_dim)
    angles = torch.outer(torch.arange(seq_len).float(), inverse)
    return torch.polar(torch.ones_like(angles), angles)


def turn(x: torch.Tensor, angles: torch.Tensor):
    """x (B, L, h, d_k)."""
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
    turned = pairs * angles[None, :, None]
    return torch.view_as_real(turned).reshape(x.shape)


class RMSNorm(nn.Module):
    def __init__(self, dim: int, eps: float = 1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: torch.Tensor):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


class SelfAttention(nn.Module):
    def __init__(self, args: ModelArgs):
        super().__init__()
        self.n_kv_heads = args.n_heads if args.n_kv_heads is None else args.n_kv_heads
        self.n_heads = args.n_heads
        self.repeats = self.n_heads // self.n_kv_heads
        self.head_dim = args.dim // args.n_heads
        self.wq = nn.Linear(args.dim, args.n_heads * self.head_dim, bias=False)
        self.wk = nn.Linear(args.dim, self.n_kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(args.dim, self.n_kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(args.n_heads * self.head_dim, args.dim, bias=False)
        kept = (args.max_batch_size, args.max_seq_len, self.n_kv_heads, self.head_dim)
        self.cache_k = torch.zeros(kept)
        self.cache_v = torch.zeros(kept)

    def forward(self, x: torch.Tensor, start_pos: int, angles: torch.Tensor):
        B, L, _ = x.shape
        q = turn(self.wq(x).view(B, L, self.n_heads, self.head_dim), angles)
        k = turn(self.wk(x).view(B, L, self.n_kv_heads, self.head_dim), angles)
        v = self.wv(x).view(B, L, self.n_kv_heads, self.head_dim)
        self.cache_k, self.cache_v = self.cache_k.to(k), self.cache_v.to(v)
        self.cache_k[:B, start_pos : start_pos + L] = k
        self.cache_v[:B, start_pos : start_pos + L] = v
        keys = self.cache_k[:B, : start_pos + L].repeat_interleave(self.repeats, dim=2).transpose(1, 2)
        values = self.cache_v[:B, : start_pos + L].repeat_interleave(self.repeats, dim=2).transpose(1, 2)
        scores = q.transpose(1, 2) @ keys.transpose(2, 3) / math.sqrt(self.head_dim)
        heads = F.softmax(scores, dim=-1) @ values
        return self.wo(heads.transpose(1, 2).reshape(B, L, -1))


class FeedForward(nn.Module):
    def __init__(self, args: ModelArgs):
        super().__init__()
        hidden = int(2 * 4 * args.dim / 3)
        hidden = args.multiple_of * ((hidden + args.multiple_of - 1) // args.multiple_of)
        self.w1 = nn.Linear(args.dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, args.dim, bias=False)
        self.w3 = nn.Linear(args.dim, hidden, bias=False)

    def forward(self, x: torch.Tensor):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class EncoderBlock(nn.Module):
    def __init__(self, args: ModelArgs):
        super().__init__()
        self.attention = SelfAttention(args)
        self.feed_forward = FeedForward(args)
        self.attention_norm = RMSNorm(args.dim, eps=args.norm_eps)
        self.ffn_norm = RMSNorm(args.dim, eps=args.norm_eps)

    def forward(self, x: torch.Tensor, start_pos: int, angles: torch.Tensor):
        h = x + self.attention(self.attention_norm(x), start_pos, angles)
        return h + self.feed_forward(self.ffn_norm(h))


class Transformer(nn.Module):
    def __init__(self, args: ModelArgs):
        super().__init__()
        self.tok_embeddings = nn.Embedding(args.vocab_size, args.dim)
        self.layers = nn.ModuleList([EncoderBlock(args) for _ in range(args.n_layers)])
        self.norm = RMSNorm(args.dim, eps=args.norm_eps)
        self.output = nn.Linear(args.dim, args.vocab_size, bias=False)
        self.angles = precompute_angles(args.dim // args.n_heads, args.max_seq_len * 2)

    def forward(self, tokens: torch.Tensor, start_pos: int):
        B, L = tokens.shape
        assert L == 1, "only one token at a time can be processed"
        h = self.tok_embeddings(tokens)
        angles = self.angles[start_pos : start_pos + L].to(h.device)
        for layer in self.layers:
            h = layer(h, start_pos, angles)
        return self.output(self.norm(h)).float()
