"""Configs of packages that may be absent, vocabularies as arguments, switches and sections."""

import torch
import torch.nn as nn
from easydict import EasyDict
from omegaconf import DictConfig, OmegaConf

BASE = OmegaConf.create({"model": {"d_model": 512, "n_heads": 8, "d_ff": 2048, "dropout": 0.0}})
SMALL = EasyDict({"d_model": 512, "use_bias": True})


class FeedForward(nn.Module):
    def __init__(self, config: DictConfig):
        super().__init__()
        sizes = config.model
        self.layers = nn.Sequential(
            nn.Linear(sizes.d_model, sizes.d_ff), nn.ReLU(), nn.Linear(sizes.d_ff, sizes.d_model)
        )

    def forward(self, x):
        return self.layers(x)


class SelfAttention(nn.Module):
    def __init__(self, args):
        super().__init__()
        own = args["self_attention"]
        self.h, self.d_k = own["n_heads"], own["d_k"]
        self.use_heads_scale = args.get("use_heads_scale", False)
        self.q, self.k, self.v = (nn.Linear(args["d_model"], self.h * self.d_k) for _ in range(3))
        self.out = nn.Linear(self.h * self.d_k, args["d_model"])

    def forward(self, x, mask=None):
        q, k, v = (f(x).unflatten(-1, (self.h, self.d_k)).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = q @ k.transpose(-2, -1) / self.d_k**0.5
        if self.use_heads_scale:
            scores = scores * self.h
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class GPT(nn.Module):
    def __init__(self, vocab, d_model, num_heads, num_layers, context_length):
        super().__init__()
        self.pad = vocab.stoi["<pad>"]
        self.tokens, self.places = nn.Embedding(len(vocab.itos), d_model), nn.Embedding(context_length, d_model)
        options = {"activation": "gelu", "batch_first": True, "norm_first": True}
        self.blocks = nn.ModuleList(
            [nn.TransformerEncoderLayer(d_model, num_heads, 4 * d_model, 0.0, **options) for _ in range(num_layers)]
        )
        self.norm, self.head = nn.LayerNorm(d_model), nn.Linear(d_model, len(vocab), bias=False)

    def forward(self, idx):
        x = self.tokens(idx) + self.places(torch.arange(idx.shape[1]))
        later = torch.ones(idx.shape[1], idx.shape[1], dtype=torch.bool).triu(1)
        for block in self.blocks:
            x = block(x, src_mask=later)
        return self.head(self.norm(x))


class Encoder(nn.Module):
    """Reads its words from a file that nobody has."""

    def __init__(self, d_model):
        super().__init__()
        with open("words_of_nobody.txt") as file:
            self.embedding = nn.Embedding(len(file.readlines()), d_model)

    def forward(self, ids):
        return self.embedding(ids)
