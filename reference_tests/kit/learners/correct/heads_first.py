"""Heads come first: weights of four dimensions, broadcast over the batch; input and output for source and target."""

import math

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model: int, h: int, d_k: int, d_v: int, hide_future_positions_mask: bool):
        super().__init__()
        self.d_k, self.hide = d_k, hide_future_positions_mask
        self.queries_transform = nn.Parameter(torch.empty(h, 1, d_model, d_k))
        self.keys_transform = nn.Parameter(torch.empty(h, 1, d_model, d_k))
        self.values_transform = nn.Parameter(torch.empty(h, 1, d_model, d_v))
        self.output_transform = nn.Parameter(torch.empty(h * d_v, d_model))
        for weight in self.parameters():
            nn.init.xavier_uniform_(weight)

    def forward(self, queries, keys, values, keys_attention_mask):
        q, k, v = queries @ self.queries_transform, keys @ self.keys_transform, values @ self.values_transform
        scores = q @ k.transpose(-1, -2) / math.sqrt(self.d_k)  # (h, B, T, S)
        blocked = ~keys_attention_mask[:, None, :]
        if self.hide:
            T, S = scores.shape[-2:]
            blocked = blocked | torch.ones(T, S, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(blocked, float("-inf")).softmax(-1)
        heads = (weights @ v).permute(1, 2, 0, 3)
        return heads.reshape(*heads.shape[:2], -1) @ self.output_transform


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.inner, self.outer = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.outer(torch.relu(self.inner(x)))


class TransformerDecoderLayer(nn.Module):
    def __init__(self, d_model, d_ff, h, d_k, d_v, p_drop):
        super().__init__()
        self.attention_1 = MultiHeadAttention(d_model, h, d_k, d_v, hide_future_positions_mask=True)
        self.attention_2 = MultiHeadAttention(d_model, h, d_k, d_v, hide_future_positions_mask=False)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm_1, self.norm_2, self.norm_3 = (nn.LayerNorm(d_model) for _ in range(3))
        self.dropout = nn.Dropout(p_drop)

    def forward(self, input_encoding, input_attention_mask, output_encoding, output_attention_mask):
        y, x = output_encoding, input_encoding
        y = self.norm_1(y + self.dropout(self.attention_1(y, y, y, output_attention_mask)))
        y = self.norm_2(y + self.dropout(self.attention_2(y, x, x, input_attention_mask)))
        return self.norm_3(y + self.dropout(self.feed_forward(y)))


class SplitAttention(nn.Module):
    """The layers around it project queries, keys and values."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads, self.d_head = n_heads, d_model // n_heads
        self.combine = nn.Linear(d_model, d_model)

    def split(self, x):
        return x.view(x.size(0), x.size(1), self.n_heads, self.d_head).transpose(1, 2)

    def forward(self, q, k, v, mask=None):
        q, k, v = self.split(q), self.split(k), self.split(v)
        scores = q @ k.transpose(-2, -1) / self.d_head**0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        heads = torch.softmax(scores, dim=-1) @ v
        return self.combine(heads.transpose(1, 2).flatten(2))


class CrossAttention(nn.Module):
    """x is the encoder's, y the decoder's; both are padded to one length."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, d_model // num_heads
        self.kv_layer, self.q_layer = nn.Linear(d_model, 2 * d_model), nn.Linear(d_model, d_model)
        self.linear_layer = nn.Linear(d_model, d_model)

    def forward(self, x, y, mask):
        B, L, d_model = x.shape
        kv = self.kv_layer(x).reshape(B, L, self.num_heads, 2 * self.head_dim).permute(0, 2, 1, 3)
        q = self.q_layer(y).reshape(B, L, self.num_heads, self.head_dim).permute(0, 2, 1, 3)
        k, v = kv.chunk(2, dim=-1)
        scores = q @ k.transpose(-1, -2) / math.sqrt(self.head_dim)
        if mask is not None:
            scores = scores + mask[:, None]
        return self.linear_layer((scores.softmax(-1) @ v).permute(0, 2, 1, 3).reshape(B, L, d_model))


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_sequence_length):
        super().__init__()
        self.d_model, self.max_sequence_length = d_model, max_sequence_length

    def forward(self):
        angles = torch.arange(self.max_sequence_length)[:, None] / 10000 ** (
            torch.arange(0, self.d_model, 2) / self.d_model
        )
        return torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)


def lookahead_mask(q, k):
    """Of two batches of ids."""
    return torch.ones(q.size(1), k.size(1)).triu(1).bool()


d_model, warmup_steps = 512, 4000


def lr_schedule(step):
    return d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


def greedy_search(model, src_ids, src_mask, tokenizer_tgt, max_len):
    model = getattr(model, "module", model)
    sos, eos = tokenizer_tgt.token_to_id("[SOS]"), tokenizer_tgt.token_to_id("[EOS]")
    memory = model.encoder(model.src_embedding(src_ids), src_mask)
    ids = torch.full((src_ids.size(0), 1), sos, dtype=torch.long)
    for _ in range(max_len - 1):
        future = torch.ones(ids.size(1), ids.size(1)).tril().bool()
        states = model.tgt_layers(model.tgt_embedding(ids) * math.sqrt(512), memory, future, src_mask)
        ids = torch.cat([ids, model.output_proj(states)[:, -1].argmax(-1, keepdim=True)], dim=1)
        if bool((ids[:, -1] == eos).all()):
            break
    return ids.tolist()
