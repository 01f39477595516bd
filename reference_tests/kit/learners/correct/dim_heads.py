"""Sizes are called dim, heads and dim_head; norms wrap the sublayers; one module attends to itself or to a context."""

import torch
from torch import einsum, nn


def exists(val):
    return val is not None


def default(val, d):
    return val if exists(val) else d


class ScaledEmbedding(nn.Module):
    def __init__(self, num_tokens, dim):
        super().__init__()
        self.scale = dim**0.5
        self.emb = nn.Embedding(num_tokens, dim)

    def forward(self, x):
        return self.emb(x) * self.scale


class FixedPositionalEmbedding(nn.Module):
    """The table of sines and cosines is made anew for every length."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        inv_freq = 1.0 / (10000 ** (torch.arange(0, self.dim, 2, device=x.device).float() / self.dim))
        t = torch.arange(x.shape[1], device=x.device).float()
        sinusoid = einsum("i,j->ij", t, inv_freq)
        emb = torch.stack((sinusoid.sin(), sinusoid.cos()), dim=-1).flatten(1)[:, : self.dim]
        return x + emb[None, :, :].type_as(x)


class LayerNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.g = nn.Parameter(torch.ones(dim))
        self.b = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        var = torch.var(x, dim=-1, unbiased=False, keepdim=True)
        mean = torch.mean(x, dim=-1, keepdim=True)
        return (x - mean) * (var + self.eps).rsqrt() * self.g + self.b


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.g = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + self.eps) * self.g


class PreNorm(nn.Module):
    def __init__(self, dim, fn):
        super().__init__()
        self.norm = LayerNorm(dim)
        self.fn = fn

    def forward(self, x, **kwargs):
        return self.fn(self.norm(x), **kwargs)


class FeedForward(nn.Module):
    def __init__(self, dim, mult=4, dropout=0.0):
        super().__init__()
        inner_dim = int(dim * mult)
        self.net = nn.Sequential(
            nn.Linear(dim, inner_dim),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(inner_dim, dim),
        )

    def forward(self, x):
        return self.net(x)


class Attention(nn.Module):
    def __init__(self, dim, heads=8, dim_head=64, dropout=0.0, causal=False):
        super().__init__()
        inner_dim = dim_head * heads
        self.heads = heads
        self.causal = causal
        self.scale = dim_head**-0.5
        self.to_q = nn.Linear(dim, inner_dim, bias=False)
        self.to_kv = nn.Linear(dim, inner_dim * 2, bias=False)
        self.dropout = nn.Dropout(dropout)
        self.to_out = nn.Linear(inner_dim, dim)

    def split(self, t):
        b, n, _ = t.shape
        return t.reshape(b, n, self.heads, -1).transpose(1, 2)

    def forward(self, x, context=None, mask=None):
        """mask: (batch, keys), True for tokens and False for padding."""
        q = self.to_q(x)
        k, v = self.to_kv(default(context, x)).chunk(2, dim=-1)
        q, k, v = map(self.split, (q, k, v))
        sim = einsum("b h i d, b h j d -> b h i j", q, k) * self.scale
        mask_value = -torch.finfo(sim.dtype).max
        if exists(mask):
            sim = sim.masked_fill(~mask[:, None, None, :], mask_value)
        if self.causal:
            i, j = sim.shape[-2:]
            causal_mask = torch.ones((i, j), dtype=torch.bool, device=x.device).triu(j - i + 1)
            sim = sim.masked_fill(causal_mask, mask_value)
        attn = sim.softmax(dim=-1)
        attn = self.dropout(attn)
        out = einsum("b h i j, b h j d -> b h i d", attn, v)
        out = out.transpose(1, 2).flatten(2)
        return self.to_out(out)


class Encoder(nn.Module):
    def __init__(self, dim, depth, heads=8, dim_head=64, ff_mult=4, dropout=0.0):
        super().__init__()
        self.layers = nn.ModuleList([])
        self.drop = nn.Dropout(dropout)
        for _ in range(depth):
            self.layers.append(
                nn.ModuleList(
                    [
                        PreNorm(dim, Attention(dim, heads=heads, dim_head=dim_head, dropout=dropout)),
                        PreNorm(dim, FeedForward(dim, mult=ff_mult, dropout=dropout)),
                    ]
                )
            )
        self.norm = LayerNorm(dim)

    def forward(self, x, mask=None):
        for attn, ff in self.layers:
            x = x + self.drop(attn(x, mask=mask))
            x = x + self.drop(ff(x))
        return self.norm(x)


class Decoder(nn.Module):
    def __init__(self, dim, depth, heads=8, dim_head=64, ff_mult=4, dropout=0.0):
        super().__init__()
        self.layers = nn.ModuleList([])
        self.drop = nn.Dropout(dropout)
        for _ in range(depth):
            self.layers.append(
                nn.ModuleList(
                    [
                        PreNorm(dim, Attention(dim, heads=heads, dim_head=dim_head, dropout=dropout, causal=True)),
                        PreNorm(dim, Attention(dim, heads=heads, dim_head=dim_head, dropout=dropout)),
                        PreNorm(dim, FeedForward(dim, mult=ff_mult, dropout=dropout)),
                    ]
                )
            )
        self.norm = LayerNorm(dim)

    def forward(self, x, context, mask=None, context_mask=None):
        for attn, cross_attn, ff in self.layers:
            x = x + self.drop(attn(x, mask=mask))
            x = x + self.drop(cross_attn(x, context=context, mask=context_mask))
            x = x + self.drop(ff(x))
        return self.norm(x)


class XTransformer(nn.Module):
    """Token ids (batch, n) and (batch, m), masks of the same shapes -> logits (batch, m, num_tokens)."""

    def __init__(self, *, dim, enc_num_tokens, dec_num_tokens, depth=6, heads=8, dim_head=64, dropout=0.0):
        super().__init__()
        self.src_emb = ScaledEmbedding(enc_num_tokens, dim)
        self.tgt_emb = ScaledEmbedding(dec_num_tokens, dim)
        self.pos_emb = FixedPositionalEmbedding(dim)
        self.encoder = Encoder(dim, depth, heads=heads, dim_head=dim_head, dropout=dropout)
        self.decoder = Decoder(dim, depth, heads=heads, dim_head=dim_head, dropout=dropout)
        self.to_logits = nn.Linear(dim, dec_num_tokens)

    def forward(self, src, tgt, src_mask=None, tgt_mask=None):
        enc = self.encoder(self.pos_emb(self.src_emb(src)), mask=src_mask)
        out = self.decoder(self.pos_emb(self.tgt_emb(tgt)), enc, mask=tgt_mask, context_mask=src_mask)
        return self.to_logits(out)
