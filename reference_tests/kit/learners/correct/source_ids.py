"""All is told its config; encoder and decoder make their masks from ids, so the decoder is given the source's too.

Positions are a frozen nn.Embedding; d_ff is an expansion; attention maps are collected in lists.
"""

import numpy as np
import torch
import torch.nn as nn


class Config:
    def __init__(self, input_dim=32, output_dim=30, hidden_dim=64, expanded_dim=256, n_layers=3, n_heads=4, max_len=50):
        self.input_dim, self.output_dim = input_dim, output_dim
        self.hidden_dim, self.expanded_dim = hidden_dim, expanded_dim
        self.n_layers, self.n_heads, self.max_len = n_layers, n_heads, max_len


def sinusoid_table(n_position, hidden_dim):
    angles = np.array(
        [[pos / 10000 ** (2 * (i // 2) / hidden_dim) for i in range(hidden_dim)] for pos in range(n_position)]
    )
    angles[:, 0::2], angles[:, 1::2] = np.sin(angles[:, 0::2]), np.cos(angles[:, 1::2])
    return torch.tensor(angles, dtype=torch.float)


def get_attn_pad_mask(seq_q, seq_k, pad=0):
    return seq_k.eq(pad).unsqueeze(1).expand(seq_q.size(0), seq_q.size(1), seq_k.size(1))


def get_attn_subsequent_mask(seq):
    return torch.triu(torch.ones(seq.size(0), seq.size(1), seq.size(1), dtype=torch.bool), diagonal=1)


class MultiHeadAttention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.n_heads, self.head_dim = cfg.n_heads, cfg.hidden_dim // cfg.n_heads
        self.W_Q = nn.Linear(cfg.hidden_dim, cfg.hidden_dim)
        self.W_K = nn.Linear(cfg.hidden_dim, cfg.hidden_dim)
        self.W_V = nn.Linear(cfg.hidden_dim, cfg.hidden_dim)
        self.linear = nn.Linear(cfg.hidden_dim, cfg.hidden_dim)

    def forward(self, Q, K, V, attn_mask):
        batch_size = Q.size(0)
        q = self.W_Q(Q).view(batch_size, -1, self.n_heads, self.head_dim).transpose(1, 2)
        k = self.W_K(K).view(batch_size, -1, self.n_heads, self.head_dim).transpose(1, 2)
        v = self.W_V(V).view(batch_size, -1, self.n_heads, self.head_dim).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(-1, -2)) / np.sqrt(self.head_dim)
        scores = scores.masked_fill(attn_mask.unsqueeze(1), float("-inf"))
        attn = scores.softmax(-1)
        context = torch.matmul(attn, v).transpose(1, 2).reshape(batch_size, -1, self.n_heads * self.head_dim)
        return self.linear(context), attn


class PoswiseFeedForwardNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(cfg.hidden_dim, cfg.expanded_dim), nn.Linear(cfg.expanded_dim, cfg.hidden_dim)

    def forward(self, inputs):
        return self.fc2(torch.relu(self.fc1(inputs)))


class EncoderLayer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.enc_self_attn, self.pos_ffn = MultiHeadAttention(cfg), PoswiseFeedForwardNet(cfg)
        self.norm1, self.norm2 = nn.LayerNorm(cfg.hidden_dim, eps=1e-6), nn.LayerNorm(cfg.hidden_dim, eps=1e-6)

    def forward(self, enc_inputs, enc_self_attn_mask):
        outputs, attn = self.enc_self_attn(enc_inputs, enc_inputs, enc_inputs, enc_self_attn_mask)
        outputs = self.norm1(enc_inputs + outputs)
        return self.norm2(outputs + self.pos_ffn(outputs)), attn


class DecoderLayer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.dec_self_attn, self.dec_enc_attn = MultiHeadAttention(cfg), MultiHeadAttention(cfg)
        self.pos_ffn = PoswiseFeedForwardNet(cfg)
        self.norm1, self.norm2 = nn.LayerNorm(cfg.hidden_dim, eps=1e-6), nn.LayerNorm(cfg.hidden_dim, eps=1e-6)
        self.norm3 = nn.LayerNorm(cfg.hidden_dim, eps=1e-6)

    def forward(self, dec_inputs, enc_outputs, dec_self_attn_mask, dec_enc_attn_mask):
        outputs, self_attn = self.dec_self_attn(dec_inputs, dec_inputs, dec_inputs, dec_self_attn_mask)
        x = self.norm1(dec_inputs + outputs)
        outputs, cross_attn = self.dec_enc_attn(x, enc_outputs, enc_outputs, dec_enc_attn_mask)
        x = self.norm2(x + outputs)
        return self.norm3(x + self.pos_ffn(x)), self_attn, cross_attn


class Encoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.src_emb = nn.Embedding(cfg.input_dim, cfg.hidden_dim)
        self.pos_emb = nn.Embedding.from_pretrained(sinusoid_table(cfg.max_len, cfg.hidden_dim), freeze=True)
        self.layers = nn.ModuleList([EncoderLayer(cfg) for _ in range(cfg.n_layers)])

    def forward(self, enc_inputs):
        positions = torch.arange(enc_inputs.size(1)).expand_as(enc_inputs)
        outputs = self.src_emb(enc_inputs) + self.pos_emb(positions)
        mask, attns = get_attn_pad_mask(enc_inputs, enc_inputs), []
        for layer in self.layers:
            outputs, attn = layer(outputs, mask)
            attns.append(attn)
        return outputs, attns


class Decoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tgt_emb = nn.Embedding(cfg.output_dim, cfg.hidden_dim)
        self.pos_emb = nn.Embedding.from_pretrained(sinusoid_table(cfg.max_len, cfg.hidden_dim), freeze=True)
        self.layers = nn.ModuleList([DecoderLayer(cfg) for _ in range(cfg.n_layers)])

    def forward(self, dec_inputs, enc_inputs, enc_outputs):
        positions = torch.arange(dec_inputs.size(1)).expand_as(dec_inputs)
        outputs = self.tgt_emb(dec_inputs) + self.pos_emb(positions)
        own = get_attn_pad_mask(dec_inputs, dec_inputs) | get_attn_subsequent_mask(dec_inputs)
        cross, attns = get_attn_pad_mask(dec_inputs, enc_inputs), []
        for layer in self.layers:
            outputs, self_attn, cross_attn = layer(outputs, enc_outputs, own, cross)
            attns.append((self_attn, cross_attn))
        return outputs, attns


class Transformer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.encoder, self.decoder = Encoder(cfg), Decoder(cfg)
        self.projection = nn.Linear(cfg.hidden_dim, cfg.output_dim)

    def forward(self, enc_inputs, dec_inputs):
        enc_outputs, enc_attns = self.encoder(enc_inputs)
        dec_outputs, dec_attns = self.decoder(dec_inputs, enc_inputs, enc_outputs)
        return self.projection(dec_outputs), enc_attns, dec_attns
